"""API of service environments, quota shares and service jobs: the operations behind `BatchCompute`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from moto.batch.exceptions import ClientException

from localcloud.batch.service_jobs import jobs
from localcloud.batch.service_jobs.jobs import STATUSES, ServiceJob
from localcloud.batch.service_jobs.resources import ServiceResources
from localcloud.batch.service_jobs.scheduler import ServiceScheduler
from localcloud.credentials.arn import name_of_arn

PAGE = 100
"""API reference, ListServiceJobs, maxResults: 1 to 100."""
OPERATIONS = (
    *(
        "CreateServiceEnvironment",
        "DescribeServiceEnvironments",
        "UpdateServiceEnvironment",
        "DeleteServiceEnvironment",
    ),
    *("CreateQuotaShare", "UpdateQuotaShare", "DeleteQuotaShare"),
    *("SubmitServiceJob", "DescribeServiceJob", "ListServiceJobs", "TerminateServiceJob"),
)


class Services:
    """Implements the service-job operations of Batch in one account and Region.

    Args:
        backend: The whole Batch backend.
    """

    scheduler: ClassVar[ServiceScheduler]

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.resources = ServiceResources(backend.region_name, backend.account_id)
        self._jobs: dict[str, ServiceJob] = {}
        self._tokens: dict[str, ServiceJob] = {}

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run one of OPERATIONS and return its answer."""
        with self.scheduler.lock:
            return dict(getattr(self, f"_{operation.lower()}")(request))

    def _createserviceenvironment(self, request: Mapping[str, Any]) -> dict[str, Any]:
        environment = self.resources.create_environment(request)
        self._tag(environment.arn, request)
        return {"serviceEnvironmentName": environment.name, "serviceEnvironmentArn": environment.arn}

    def _describeserviceenvironments(self, request: Mapping[str, Any]) -> dict[str, Any]:
        names = {name_of_arn(str(name)) for name in request.get("serviceEnvironments") or ()}
        environments = [
            environment
            for environment in self.resources.environments.values()
            if not names or environment.name in names
        ]
        return {"serviceEnvironments": [environment.describe() for environment in environments]}

    def _updateserviceenvironment(self, request: Mapping[str, Any]) -> dict[str, Any]:
        environment = self.resources.update_environment(request)
        return {"serviceEnvironmentName": environment.name, "serviceEnvironmentArn": environment.arn}

    def _deleteserviceenvironment(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.resources.delete_environment(request)
        return {}

    def _createquotashare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        share = self.resources.create_share(request)
        self._tag(share.arn, request)
        return {"quotaShareName": share.name, "quotaShareArn": share.arn}

    def _updatequotashare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        _, share = self.resources.queue_and_share(str(request["quotaShareArn"]))
        if request.get("capacityLimits"):
            share.limits = {limit["capacityUnit"]: int(limit["maxCapacity"]) for limit in request["capacityLimits"]}
        if request.get("resourceSharingConfiguration"):
            share.may_borrow = request["resourceSharingConfiguration"].get("strategy") == "LEND_AND_BORROW"
        return {"quotaShareName": share.name, "quotaShareArn": share.arn}

    def _deletequotashare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue, share = self.resources.queue_and_share(str(request["quotaShareArn"]))
        del queue.shares[share.name]
        return {}

    def _submitservicejob(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Treat equal requests with one token as one. AWS does not document a different request with a used token."""
        token = str(request.get("clientToken") or "")
        job = self._tokens.get(token) if token else None
        if job is None:
            backend = self._backend
            job = jobs.read(self.resources, backend.region_name, backend.account_id, request)
            self._jobs[job.id] = job
            if token:
                self._tokens[token] = job
            self._tag(job.arn, request)
            self.scheduler.submit(backend, job)
        elif dict(job.request) != dict(request):
            raise ClientException(f"clientToken {token} was given with another request")
        return {"jobArn": job.arn, "jobName": job.name, "jobId": job.id}

    def _describeservicejob(self, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._jobs.get(name_of_arn(str(request.get("jobId") or "")))
        if job is None:
            raise ClientException(f"Service job {request.get('jobId')} does not exist")
        return job.describe()

    def _listservicejobs(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue = self.resources.queue(str(request.get("jobQueue") or ""))
        if queue is None:
            raise ClientException(f"JobQueue {request.get('jobQueue')!r} is not a queue of service jobs")
        selected_jobs = list(_select(queue.jobs, request))
        size = min(int(request.get("maxResults") or PAGE), PAGE)
        start = int(request.get("nextToken") or 0)
        reply: dict[str, Any] = {"jobSummaryList": [job.summary() for job in selected_jobs[start : start + size]]}
        if len(selected_jobs) > start + size:
            reply["nextToken"] = str(start + size)
        return reply

    def _terminateservicejob(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Terminate a service job; an unknown one is not an error (API reference, TerminateServiceJobs)."""
        if not request.get("reason"):
            raise ClientException("'reason' is a required field (cannot be an empty string)")
        job = self._jobs.get(name_of_arn(str(request.get("jobId") or "")))
        if job is not None:
            self.scheduler.terminate(job, str(request["reason"]))
        return {}

    def _tag(self, arn: str, request: Mapping[str, Any]) -> None:
        if request.get("tags"):
            self._backend.tag_resource(arn, dict(request["tags"]))


def _select(jobs: Iterable[ServiceJob], request: Mapping[str, Any]) -> Iterable[ServiceJob]:
    """Select jobs for ListServiceJobs: by name in any status, newest first, or by status, RUNNING by default."""
    filters = request.get("filters") or []
    if len(filters) > 1:
        raise ClientException("Only one filter can be used at a time")
    if not filters:
        status = request.get("jobStatus") or "RUNNING"
        if status not in STATUSES:
            raise ClientException(f"jobStatus {status!r} is not one of {', '.join(STATUSES)}")
        return (job for job in jobs if job.status == status)
    if filters[0].get("name") != "JOB_NAME":
        raise ClientException(f"localcloud supports only the filter JOB_NAME; got {json.dumps(filters[0].get('name'))}")
    values = [str(value).lower() for value in filters[0].get("values") or []]
    with_name = (job for job in jobs if any(_matches(value, job.name.lower()) for value in values))
    return sorted(with_name, key=lambda job: job.created_at, reverse=True)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
