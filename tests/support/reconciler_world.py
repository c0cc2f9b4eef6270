"""Reconciler world: a reconciler with the real ledger, and with Batch and SageMaker under the control of a test."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from tests.support.ledger_items import job_key
from traingrid import names
from traingrid.aws.s3 import Storage
from traingrid.backends.inventory import ALL, Window
from traingrid.backends.training_job import TrainingJob
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.reconciler.reconciler import Reconciler
from traingrid.submission.batch_children import ChildStatus

DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}, "DescribeTrainingJob")
SLOW = ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "StopTrainingJob")
SILENT = ReadTimeoutError(endpoint_url="https://api.sagemaker")


@dataclass
class World:
    """The state of Batch and SageMaker, and the calls that were made.

    Attributes:
        running: The running training jobs, by Region.
        ended: The final states of training jobs, by name.
        children: Batch's status of children; RUNNING by default.
        fails: The error that a call for a Region or a training job raises.
        described: The names of training jobs that were described, in order.
        stopped: The names of training jobs that were stopped.
        kept: The ended training jobs that a cluster keeps, by Region.
        released: The names of those that were released.
        completed: The names of training jobs whose stop was completed.
        older: The training jobs that only the daily pass lists, by Region.
        listed_before: The times before which it has listed them.
        on_look: Called before a description is returned.
        on_stop: Called before a training job is stopped.
        on_ask: Called before Batch describes a submission's children.
    """

    running: dict[str, list[TrainingJob]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    children: dict[int, str] = field(default_factory=dict)
    fails: dict[str, Exception] = field(default_factory=dict)
    described: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    kept: dict[str, list[TrainingJob]] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    older: dict[str, list[TrainingJob]] = field(default_factory=dict)
    listed_before: list[float] = field(default_factory=list)
    on_look: Callable[[], object] = lambda: None
    on_stop: Callable[[], object] = lambda: None
    on_ask: Callable[[], object] = lambda: None

    def of(self, head: Any, lines: Any) -> dict[int, ChildStatus]:
        self.on_ask()
        return {
            index: ChildStatus(id=f"{head.batch_job}:{index}", status=self.children.get(index, "RUNNING"))
            for index in lines
        }

    def find(self, *_: object) -> None:
        return None

    def meet(self, what: str) -> None:
        if what in self.fails:
            raise self.fails[what]

    def runs(
        self, submission: str, index: int, region: str, state: str = "InProgress", *, may_hang: bool = False
    ) -> str:
        """Add a running training job of a line, and return its name."""
        name = names.training_job("traingrid", submission, index, 1)
        identity = names.parse_training_job("traingrid", name)
        assert identity
        times: dict[str, Any] = {"created_at": 0.0, "may_hang": may_hang}
        job = TrainingJob(name=name, identity=identity, region=region, state=JobState(state), arn=name, **times)
        self.running.setdefault(region, []).append(job)
        return name

    def keeps(self, submission: str, index: int, region: str, *, attempt: int = 1, ended_at: float = 0.0) -> str:
        """Add an ended training job that a cluster keeps, and return its name."""
        name = names.training_job("traingrid", submission, index, attempt)
        identity = names.parse_training_job("traingrid", name)
        assert identity
        state = JobState.COMPLETED
        job = TrainingJob(
            name=name, identity=identity, region=region, state=state, created_at=0.0, ended_at=ended_at, backend="eks"
        )
        self.kept.setdefault(region, []).append(job)
        return name


@dataclass
class Region:
    """SageMaker in one Region."""

    world: World
    name: str

    def listed(self, state: str = "", _submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        self.world.meet(self.name)
        if window.before == math.inf:  # these are new
            yield from (job for job in self.world.running.get(self.name, []) if job.state == state)
            return
        self.world.listed_before.append(window.before)
        yield from self.world.older.get(self.name, [])

    def complete_stop(self, job: TrainingJob) -> bool:
        self.world.completed.append(job.name)
        return True

    def ended(self) -> Iterator[TrainingJob]:
        self.world.meet(f"ended {self.name}")
        yield from self.world.kept.get(self.name, [])

    def release(self, job: TrainingJob) -> bool:
        self.world.released.append(job.name)
        return True

    def stop(self, job: TrainingJob) -> bool:
        self.world.meet(f"stop {job.name}")
        self.world.on_stop()
        self.world.stopped.append(job.name)
        return True

    def has_our_tag(self, job: TrainingJob) -> bool:
        self.world.meet(f"tags {job.arn}")
        return True

    def describe(self, name: str) -> TrainingJobDescription | None:
        self.world.on_look()
        self.world.described.append(name)
        self.world.meet(f"describe {self.name}")
        self.world.meet(name)
        state = self.world.ended.get(name)
        return TrainingJobDescription(state=JobState(state), fingerprint="asked") if state else None


def a_reconciler(world: World, deployment: Deployment, ledger: Ledger) -> Reconciler:
    fake: Any = world
    region: Any = Region
    return Reconciler(
        grid="traingrid",
        bucket=deployment.manifest_bucket,
        ledger=ledger,
        storage=Storage(),
        children=fake,
        batch=fake,
        regions=list(deployment.grid.regions),
        inventory=lambda name: region(world, name),
        backend=lambda name, _: region(world, name),
        grace_seconds=0.0,
    )


def open_lines(
    ledger: Ledger,
    job: Job,
    regions: list[str],
    submission: str = "0123abcd",
    state: JobState = JobState.IN_PROGRESS,
) -> list[str]:
    """Submit lines that train in the given Regions; return the names of their training jobs."""
    ledger.claim_submission(submission, "test", {"jobs": len(regions), "manifest": "s3://x/y", "version": "1"})
    ledger.record_submitted(submission, "array")
    for index, region in enumerate(regions):
        ledger.open_job(submission, job.model_copy(update={"index": index, "region": region}))
        ledger.record_job(job_key(index, submission=submission), {"state": state, "fingerprint": "asked"})
    return [names.training_job("traingrid", submission, index, 1) for index in range(len(regions))]
