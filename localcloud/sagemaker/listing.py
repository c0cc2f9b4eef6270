"""ListTrainingJobs: filters, order and pages."""

from collections.abc import Mapping, Sequence
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException

from localcloud.sagemaker.job import TrainingJob

PAGE = 10
"""Number of jobs on a page without MaxResults; the service model allows up to 100."""


def page(jobs: Sequence[TrainingJob], request: Mapping[str, Any]) -> tuple[list[TrainingJob], str | None]:
    """Return the jobs of one page and the token of the next page, or None on the last page.

    With `StatusEquals` and `MaxResults`, a page is cut first and then filtered by status, so it can be empty and still
    have a token (the service model's documentation of ListTrainingJobs).

    Args:
        jobs: All jobs of the account and Region.
        request: The request, with times as datetimes.

    Raises:
        AWSValidationException: If the token is invalid.
    """
    selected = [job for job in jobs if _is_wanted(job, request)]
    selected.sort(key=_ORDERS[request.get("SortBy", "CreationTime")], reverse=request.get("SortOrder") == "Descending")
    token = str(request.get("NextToken") or "0")
    if not token.isdigit():
        raise AWSValidationException("Invalid pagination token.")
    cut_first = "StatusEquals" in request and "MaxResults" in request
    if not cut_first:
        selected = [job for job in selected if _has_status(job, request)]
    start = int(token)
    size = int(request.get("MaxResults") or PAGE)
    end = start + size
    jobs_of_page = [job for job in selected[start:end] if _has_status(job, request)]
    return jobs_of_page, str(end) if end < len(selected) else None


_ORDERS: dict[str, Any] = {
    "Name": lambda job: job.name,
    "CreationTime": lambda job: job.creation_time,
    "Status": lambda job: job.progress.status,
}


def _is_wanted(job: TrainingJob, request: Mapping[str, Any]) -> bool:
    created, changed = job.creation_time, job.progress.changed_at
    return (
        created > request.get("CreationTimeAfter", created.min.replace(tzinfo=created.tzinfo))
        and created < request.get("CreationTimeBefore", created.max.replace(tzinfo=created.tzinfo))
        and changed > request.get("LastModifiedTimeAfter", created.min.replace(tzinfo=created.tzinfo))
        and changed < request.get("LastModifiedTimeBefore", created.max.replace(tzinfo=created.tzinfo))
        and request.get("NameContains", "") in job.name
    )


def _has_status(job: TrainingJob, request: Mapping[str, Any]) -> bool:
    return bool(request.get("StatusEquals", job.progress.status) == job.progress.status)
