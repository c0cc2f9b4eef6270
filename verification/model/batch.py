"""In-memory AWS Batch: array jobs, whose children the caller runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from traingrid.job.failures import FOR_GOOD, TRAINED

ENDED = ("SUCCEEDED", "FAILED")
ATTEMPTS = 10


@dataclass
class BatchChild:
    """A child of an array, or a plain job.

    Attributes:
        index: Its index in the array; None for a plain job.
        file: Value of S3_ARRAY_FILE.
        is_terminated: True after TerminateJob.
        stopped_at: Time at which it ended.
    """

    id: str
    index: int | None
    file: str
    status: str = "RUNNABLE"
    tries: int = 0
    is_terminated: bool = False
    stopped_at: float = 0.0

    def describe(self) -> dict[str, Any]:
        """Return its entry in the reply of DescribeJobs."""
        entry: dict[str, Any] = {"jobId": self.id, "status": self.status}
        return entry | ({"stoppedAt": int(self.stopped_at * 1000)} if self.stopped_at else {})


@dataclass
class BatchJob:
    """An array job or a plain job.

    Attributes:
        children: The children of an array; a plain job is its own only child.
    """

    id: str
    name: str
    children: list[BatchChild]

    @property
    def status(self) -> str:
        """Batch's status of the whole job."""
        states = {child.status for child in self.children}
        if not states <= set(ENDED):
            return "PENDING"
        return "FAILED" if "FAILED" in states else "SUCCEEDED"

    def describe(self) -> dict[str, Any]:
        """Return its entry in the reply of DescribeJobs."""
        if self.children[0].index is None:
            return self.children[0].describe() | {"jobName": self.name}
        tally = Counter(child.status for child in self.children)
        array = {"statusSummary": dict(tally), "size": len(self.children)}
        return {"jobId": self.id, "jobName": self.name, "status": self.status, "arrayProperties": array}


@dataclass
class BatchQueue:
    """The job queue.

    Attributes:
        on_submit: Called with the name of every accepted Batch job.
        on_terminate: Called with every running child that is terminated.
        jobs: All Batch jobs by id.
    """

    now: Callable[[], float]
    on_submit: Callable[[str], None]
    on_terminate: Callable[[BatchChild], None]
    jobs: dict[str, BatchJob] = field(default_factory=dict)

    @property
    def children(self) -> list[BatchChild]:
        """All children of all jobs."""
        return [child for job in self.jobs.values() for child in job.children]

    def submit_job(self, **request: Any) -> dict[str, Any]:
        """Accept a job. Batch does not require unique names."""
        job, size = f"job-{len(self.jobs)}", request.get("arrayProperties", {}).get("size")
        file = request["containerOverrides"]["environment"][0]["value"]
        places: list[int | None] = [None] if size is None else list(range(size))
        children = [BatchChild(job if place is None else f"{job}:{place}", place, file) for place in places]
        self.jobs[job] = BatchJob(job, request["jobName"], children)
        self.on_submit(request["jobName"])
        return {"jobId": job}

    def list_jobs(self, **request: Any) -> dict[str, Any]:
        """List jobs by name."""
        (pattern,) = request["filters"][0]["values"]
        jobs = [job for job in self.jobs.values() if _matches(pattern, job.name)]
        return {"jobSummaryList": [{"jobId": job.id, "jobName": job.name} for job in jobs]}

    def pages_of_list_jobs(self, **request: Any) -> Iterator[dict[str, Any]]:
        """List jobs in one page."""
        yield self.list_jobs(**request)

    def describe_jobs(self, **request: Any) -> dict[str, Any]:
        """Describe array jobs and children."""
        job_by_id: dict[str, Any] = {child.id: child for child in self.children} | self.jobs
        return {"jobs": [job_by_id[job].describe() for job in request["jobs"] if job in job_by_id]}

    def terminate_job(self, **request: Any) -> dict[str, Any]:
        """End children that have not started, and signal those that run."""
        job_id = request["jobId"]
        for child in self.children:
            if job_id not in (child.id, child.id.partition(":")[0]) or child.status in ENDED:
                continue
            child.is_terminated = True
            if child.status == "RUNNABLE":
                self._end(child, "FAILED")
            else:
                self.on_terminate(child)
        return {}

    def ended(self, child: BatchChild, code: int) -> None:
        """Record the exit code of a child's program, and retry it as Batch does."""
        again = code not in (TRAINED, *FOR_GOOD) and child.tries < ATTEMPTS and not child.is_terminated
        if again:
            child.status = "RUNNABLE"
        else:
            self._end(child, "SUCCEEDED" if code == 0 else "FAILED")

    def _end(self, child: BatchChild, status: str) -> None:
        child.status, child.stopped_at = status, self.now()


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
