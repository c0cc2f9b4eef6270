"""AWS Batch that runs jobs: moto's backend and API with the job handling replaced.

Compute environments, queues and job definitions remain moto's. The overrides add features that moto 5.2.5 lacks: jobs
run without a container engine; array children do not need one thread each; retryStrategy, evaluateOnExit and vCPU
limits apply; TerminateJob sends signals; DescribeJobs and ListJobs answer in pages, as AWS does.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from moto.batch import urls
from moto.batch.exceptions import ClientException, InvalidParameterValueException, InvalidRequestException
from moto.batch.models import BatchBackend, batch_backends
from moto.batch.responses import BatchResponse
from moto.batch.utils import make_arn_for_job

from localcloud.batch import listing, submission
from localcloud.batch.jobs import Job
from localcloud.batch.scheduler import Scheduler
from localcloud.batch.service_jobs.api import OPERATIONS, Services
from localcloud.batch.service_jobs.scheduler import ServiceScheduler
from localcloud.credentials.arn import name_of_arn
from localcloud.limits import linked_roles

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

DESCRIBE_LIMIT = 100
"""API reference, DescribeJobs: "A list of up to 100 job IDs"."""


class BatchCompute(BatchBackend):
    """The Batch of one account and Region."""

    scheduler: ClassVar[Scheduler]

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._jobs: dict[str, Job] = {}
        self._by_queue: dict[str, list[Job]] = {}
        self.services = Services(self)

    @property
    def _url_module(self) -> Any:
        """Return moto's URL module, because moto derives it from the class's module, which is ours."""
        return urls

    def reset(self) -> None:
        """Discard all state. moto's reset joins its job threads, which do not exist here."""
        self.__init__(self.region_name, self.account_id)  # type: ignore[misc]  # moto's own way to reset a backend

    def submit(self, request: Mapping[str, Any]) -> Job:
        """SubmitJob. moto ignores retryStrategy and propagateTags, and does not check size, state or timeout."""
        submitted = submission.read(self, request)
        job_id = str(uuid.uuid4())
        job = Job(id=job_id, arn=self._arn(job_id), submission=submitted)
        job.children = [
            Job(
                id=f"{job_id}:{index}",
                arn=self._arn(f"{job_id}:{index}"),
                submission=submitted,
                index=index,
                parent=job,
            )
            for index in range(submitted.size or 0)
        ]
        self._jobs[job_id] = job
        self._by_queue.setdefault(submitted.queue.arn, []).append(job)
        if submitted.tags:
            self.tag_resource(job.arn, submitted.tags)
        self.scheduler.submit(job)
        return job

    def find(self, identifier: str) -> Job | None:
        """Return a job by id or ARN, or None; "<id>:<index>" is the child of an array job."""
        parent_id, _, index = identifier.rpartition("/")[2].partition(":")
        job = self._jobs.get(parent_id)
        if job is None or not index:
            return job
        return job.children[int(index)] if index.isdigit() and int(index) < len(job.children) else None

    def describe_all(self, identifiers: Iterable[str]) -> list[dict[str, Any]]:
        """DescribeJobs: omits unknown ids, and returns no jobs without ids (moto returns all)."""
        with self.scheduler.lock:
            jobs = (self.find(identifier) for identifier in identifiers)
            return [job.describe() | {"tags": self._tags_of(job)} for job in jobs if job]

    def list_page(self, request: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
        """ListJobs, with the filters and pages that moto lacks."""
        with self.scheduler.lock:
            jobs, token = listing.page(listing.select(self._jobs_of_request(request), request), request)
            return [job.summary() for job in jobs], token

    def _jobs_of_request(self, request: Mapping[str, Any]) -> list[Job]:
        filters = [name for name in ("jobQueue", "arrayJobId", "multiNodeJobId") if request.get(name)]
        if len(filters) != 1:
            raise ClientException("Exactly one of jobQueue, arrayJobId and multiNodeJobId must be given")
        if filters == ["arrayJobId"]:
            job = self.find(request["arrayJobId"])
            return job.children if job else []
        queue = self.get_job_queue(str(request.get("jobQueue")))
        if queue is None:
            raise ClientException(f"JobQueue {request.get('jobQueue')!r} does not exist in {self.region_name}")
        return self._by_queue.get(queue.arn, [])

    def _tags_of(self, job: Job) -> dict[str, str]:
        return dict(self.list_tags_for_resource((job.parent or job).arn))

    def _arn(self, job_id: str) -> str:
        return str(make_arn_for_job(self.account_id, job_id, self.region_name))

    def cancel_job(self, job_id: str, reason: str) -> None:
        """CancelJob. moto's version terminates a whole array and does not set isCancelled."""
        self._require(job_id, reason)
        job = self.find(job_id)
        if job:
            self.scheduler.cancel(job, reason)

    def terminate_job(self, job_id: str, reason: str) -> None:
        """TerminateJob. moto's version sends no signal and does not set isTerminated."""
        self._require(job_id, reason)
        job = self.find(job_id)
        if job:
            self.scheduler.terminate(job, reason)

    @staticmethod
    def _require(job_id: str, reason: str) -> None:
        for name, value in (("jobId", job_id), ("reason", reason)):
            if not value:
                raise ClientException(f"'{name}' is a required field (cannot be an empty string)")

    def create_compute_environment(  # moto's signature
        self,
        compute_environment_name: str,
        _type: str,
        state: str,
        compute_resources: dict[str, Any],
        service_role: str,
        tags: dict[str, str] | None = None,
    ) -> Any:
        """Use the service-linked role if no role is given; moto requires one.

        The role is created on first use, and then the environment is INVALID, as on AWS (`linked_roles`).
        """
        invalid_reason = linked_roles.create_missing(self.account_id)
        role = service_role or linked_roles.arn(self.account_id, "AWSServiceRoleForBatch")
        environment = super().create_compute_environment(
            compute_environment_name, _type, state or "ENABLED", compute_resources, role, tags
        )
        environment.invalid_reason = invalid_reason
        return environment

    def describe_compute_environments(self, environments: list[str] | None = None) -> list[dict[str, Any]]:
        """Report an environment with a recorded problem as INVALID; moto reports every environment as VALID."""
        descriptions: list[dict[str, Any]] = super().describe_compute_environments(environments)
        for description in descriptions:
            if reason := self._compute_environments[description["computeEnvironmentArn"]].invalid_reason:
                description.update(status="INVALID", statusReason=f"CLIENT_ERROR - {reason}")
        return descriptions

    def update_compute_environment(self, *args: Any, **kwargs: Any) -> tuple[str, str]:
        """Update with moto, then let the scheduler check whether waiting jobs fit now."""
        answer: tuple[str, str] = super().update_compute_environment(*args, **kwargs)
        self.scheduler.poke()
        return answer

    def create_any_queue(self, request: Mapping[str, Any]) -> Any:
        """CreateJobQueue: ours for service jobs, otherwise moto's, which requires the optional state."""
        if request.get("serviceEnvironmentOrder"):
            queue = self.services.resources.create_queue(request)
            if request.get("tags"):
                self.tag_resource(queue.arn, request["tags"])
            return queue
        return self.create_job_queue(
            queue_name=request.get("jobQueueName"),
            priority=request.get("priority"),
            schedule_policy=request.get("schedulingPolicyArn"),
            state=request.get("state") or "ENABLED",
            compute_env_order=request.get("computeEnvironmentOrder") or [],
            tags=request.get("tags"),
        )

    def describe_job_queues(self, job_queues: list[str] | None = None) -> list[dict[str, Any]]:
        """Return moto's queues and the queues of service jobs."""
        names = {name_of_arn(name) for name in job_queues or ()}
        service_queues = [
            queue for queue in self.services.resources.queues.values() if not names or queue.name in names
        ]
        tagged = [queue.describe() | {"tags": self.list_tags_for_resource(queue.arn)} for queue in service_queues]
        return [*super().describe_job_queues(job_queues), *tagged]

    def delete_job_queue(self, queue_name: str) -> None:
        """Delete a queue of service jobs, or one of moto's with `_delete_compute_queue`."""
        queue = self.services.resources.queue(queue_name)
        if queue is None:
            self._delete_compute_queue(queue_name)
            return
        if queue.state == "ENABLED" or queue.shares:
            raise ClientException(f"Cannot delete JobQueue {queue.name}: it is {queue.state} or has quota shares")
        for job in queue.jobs:
            self.services.scheduler.terminate(job, "Job queue deleted")
        del self.services.resources.queues[queue.name]

    def _delete_compute_queue(self, queue_name: str) -> None:
        """Delete one of moto's queues as AWS does: refuse an ENABLED queue; terminate the jobs of a DISABLED one."""
        queue = self.get_job_queue(queue_name)
        if queue is not None and queue.state == "ENABLED":
            raise ClientException(
                f"Cannot delete, found existing JobQueue {queue.name} in state ENABLED; disable it first"
            )
        if queue is not None:
            for job in self._by_queue.pop(queue.arn, []):
                self.scheduler.terminate(job, "Job queue deleted")
        super().delete_job_queue(queue_name)


class BatchComputeResponse(BatchResponse):
    """HTTP handlers for requests whose members moto's response class does not pass to the backend."""

    @property
    def _request(self) -> dict[str, Any]:
        return dict(json.loads(self.body or "{}"))

    def registerjobdefinition(self) -> str:
        """Check the retry strategy and the timeout, which moto does not."""
        submission.check_definition(self._request)
        return str(super().registerjobdefinition())

    def createjobqueue(self) -> str:
        """Create any kind of queue; moto does not support service environments."""
        queue = self.batch_backend.create_any_queue(self._request)
        return json.dumps({"jobQueueArn": queue.arn, "jobQueueName": queue.name})

    def updatejobqueue(self) -> str:
        """Update any kind of queue; moto does not support queues of service jobs."""
        queue = self.batch_backend.services.resources.queue(str(self._request.get("jobQueue") or ""))
        if queue is None:
            return str(super().updatejobqueue())
        self.batch_backend.services.resources.update_queue(queue, self._request)
        return json.dumps({"jobQueueArn": queue.arn, "jobQueueName": queue.name})

    def submitjob(self) -> str:
        """Pass the whole request to the backend; moto passes only some members."""
        job = self.batch_backend.submit(self._request)
        return json.dumps({"jobArn": job.arn, "jobName": job.submission.name, "jobId": job.id})

    def describejobs(self) -> str:
        """Refuse too many ids; moto has no limit."""
        identifiers = self._request.get("jobs") or []
        if len(identifiers) > DESCRIBE_LIMIT:
            raise ClientException(f"jobs has {len(identifiers)} ids; DescribeJobs accepts at most {DESCRIBE_LIMIT}")
        return json.dumps({"jobs": self.batch_backend.describe_all(identifiers)})

    def listjobs(self) -> str:
        """Return one page; moto has no pages."""
        summaries, token = self.batch_backend.list_page(self._request)
        reply: dict[str, Any] = {"jobSummaryList": summaries}
        if token:
            reply["nextToken"] = token
        return json.dumps(reply)


_SERVICE_ACTIONS = {operation.lower(): operation for operation in OPERATIONS}


def _answer(operation: str) -> Callable[[BatchComputeResponse], str]:
    return lambda response: json.dumps(response.batch_backend.services.answer(operation, response._request))


for _action, _operation in _SERVICE_ACTIONS.items():  # moto looks for a method with the action's name
    setattr(BatchComputeResponse, _action, _answer(_operation))


def replace(cloud: "LocalCloud", scheduler: Scheduler, services: ServiceScheduler) -> None:
    """Make moto create and serve our backend with these schedulers."""
    BatchCompute.scheduler, Services.scheduler = scheduler, services
    # moto's error codes for invalid requests are not in Batch's service model, which defines this one and
    # ServerException; https://github.com/Netflix/metaflow/issues/70 shows it for an invalid instance type.
    for error in (InvalidParameterValueException, InvalidRequestException):
        cloud.replace(error, TYPE=ClientException.TYPE)
    cloud.replace(batch_backends, backend=BatchCompute)
    batch_backends.clear()
    paths = [*urls.url_paths, *(f"{{0}}/v1/{action}$" for action in _SERVICE_ACTIONS)]
    cloud.replace(urls, url_paths=dict.fromkeys(paths, BatchComputeResponse.dispatch))
