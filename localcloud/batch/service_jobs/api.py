"""API of service environments, quota shares and service jobs: the operations behind `BatchCompute`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from moto.batch.exceptions import ClientException

from localcloud.batch.service_jobs import jobs
from localcloud.batch.service_jobs.jobs import STATUSES, ServiceJob
from localcloud.batch.service_jobs.resources import ServiceResources
from localcloud.batch.service_jobs.scheduler import ServiceScheduler

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
        made = self.resources.create_environment(request)
        self._tag(made.arn, request)
        return {"serviceEnvironmentName": made.name, "serviceEnvironmentArn": made.arn}

    def _describeserviceenvironments(self, request: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {str(name).rpartition("/")[2] for name in request.get("serviceEnvironments") or ()}
        known = [each for each in self.resources.environments.values() if not wanted or each.name in wanted]
        return {"serviceEnvironments": [each.describe() for each in known]}

    def _updateserviceenvironment(self, request: Mapping[str, Any]) -> dict[str, Any]:
        made = self.resources.update_environment(request)
        return {"serviceEnvironmentName": made.name, "serviceEnvironmentArn": made.arn}

    def _deleteserviceenvironment(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.resources.delete_environment(request)
        return {}

    def _createquotashare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        made = self.resources.create_share(request)
        self._tag(made.arn, request)
        return {"quotaShareName": made.name, "quotaShareArn": made.arn}

    def _updatequotashare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        _, share = self.resources.share(str(request["quotaShareArn"]))
        if request.get("capacityLimits"):
            share.limits = {each["capacityUnit"]: int(each["maxCapacity"]) for each in request["capacityLimits"]}
        if request.get("resourceSharingConfiguration"):
            share.borrows = request["resourceSharingConfiguration"].get("strategy") == "LEND_AND_BORROW"
        return {"quotaShareName": share.name, "quotaShareArn": share.arn}

    def _deletequotashare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue, share = self.resources.share(str(request["quotaShareArn"]))
        del queue.shares[share.name]
        return {}

    def _submitservicejob(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Treat equal requests with one token as one. AWS does not document a different request with a used token."""
        token = str(request.get("clientToken") or "")
        known = self._tokens.get(token) if token else None
        if known is None:
            backend = self._backend
            known = jobs.read(self.resources, backend.region_name, backend.account_id, request)
            self._jobs[known.id] = known
            if token:
                self._tokens[token] = known
            self._tag(known.arn, request)
            self.scheduler.submit(backend, known)
        elif dict(known.request) != dict(request):
            raise ClientException(f"clientToken {token} was given with another request")
        return {"jobArn": known.arn, "jobName": known.name, "jobId": known.id}

    def _describeservicejob(self, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._jobs.get(str(request.get("jobId") or "").rpartition("/")[2])
        if job is None:
            raise ClientException(f"Service job {request.get('jobId')} does not exist")
        return job.describe()

    def _listservicejobs(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue = self.resources.queue(str(request.get("jobQueue") or ""))
        if queue is None:
            raise ClientException(f"JobQueue {request.get('jobQueue')!r} is not a queue of service jobs")
        chosen = list(_chosen(queue.jobs, request))
        size, start = min(int(request.get("maxResults") or PAGE), PAGE), int(request.get("nextToken") or 0)
        answer: dict[str, Any] = {"jobSummaryList": [job.summary() for job in chosen[start : start + size]]}
        return answer | ({"nextToken": str(start + size)} if len(chosen) > start + size else {})

    def _terminateservicejob(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Terminate a service job; an unknown one is not an error (API reference, TerminateServiceJobs)."""
        if not request.get("reason"):
            raise ClientException("'reason' is a required field (cannot be an empty string)")
        job = self._jobs.get(str(request.get("jobId") or "").rpartition("/")[2])
        if job is not None:
            self.scheduler.terminate(job, str(request["reason"]))
        return {}

    def _tag(self, arn: str, request: Mapping[str, Any]) -> None:
        if request.get("tags"):
            self._backend.tag_resource(arn, dict(request["tags"]))


def _chosen(found: Iterable[ServiceJob], request: Mapping[str, Any]) -> Iterable[ServiceJob]:
    """Select jobs for ListServiceJobs: by name in any status, newest first, or by status, RUNNING by default."""
    filters = request.get("filters") or []
    if len(filters) > 1:
        raise ClientException("Only one filter can be used at a time")
    if not filters:
        status = request.get("jobStatus") or "RUNNING"
        if status not in STATUSES:
            raise ClientException(f"jobStatus {status!r} is not one of {', '.join(STATUSES)}")
        return (job for job in found if job.status == status)
    if filters[0].get("name") != "JOB_NAME":
        raise ClientException(f"localcloud supports only the filter JOB_NAME; got {json.dumps(filters[0].get('name'))}")
    values = [str(value).lower() for value in filters[0].get("values") or []]
    named = (job for job in found if any(_matches(value, job.name.lower()) for value in values))
    return sorted(named, key=lambda job: job.created_at, reverse=True)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
