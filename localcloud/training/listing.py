"""ListTrainingJobs: filters, order and pages."""

from collections.abc import Mapping, Sequence
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException

from localcloud.training.job import TrainingJob

PAGE = 10
"""Jobs of a page when MaxResults is not given; the service model allows up to 100."""


def page(jobs: Sequence[TrainingJob], request: Mapping[str, Any]) -> tuple[list[TrainingJob], str | None]:
    """The jobs of one page and the token of the next, None at the end.

    Args:
        jobs: All jobs of the account and Region.
        request: The request, with times as datetimes.

    Raises:
        AWSValidationException: The token is not one of ours.
    """
    found = [job for job in jobs if _wanted(job, request)]
    found.sort(key=_ORDERS[request.get("SortBy", "CreationTime")], reverse=request.get("SortOrder") == "Descending")
    token = str(request.get("NextToken") or "0")
    if not token.isdigit():
        raise AWSValidationException("Invalid pagination token.")
    start, size = int(token), int(request.get("MaxResults") or PAGE)
    end = start + size
    return found[start:end], str(end) if end < len(found) else None


_ORDERS: dict[str, Any] = {
    "Name": lambda job: job.name,
    "CreationTime": lambda job: job.creation_time,
    "Status": lambda job: job.progress.status,
}


def _wanted(job: TrainingJob, request: Mapping[str, Any]) -> bool:
    created, changed = job.creation_time, job.progress.changed_at
    return (
        created > request.get("CreationTimeAfter", created.min.replace(tzinfo=created.tzinfo))
        and created < request.get("CreationTimeBefore", created.max.replace(tzinfo=created.tzinfo))
        and changed > request.get("LastModifiedTimeAfter", created.min.replace(tzinfo=created.tzinfo))
        and changed < request.get("LastModifiedTimeBefore", created.max.replace(tzinfo=created.tzinfo))
        and request.get("NameContains", "") in job.name
        and request.get("StatusEquals", job.progress.status) == job.progress.status
    )
