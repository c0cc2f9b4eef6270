"""ListJobs: selects, orders and pages the jobs of a request."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from moto.batch.exceptions import ClientException

from localcloud.batch.jobs import STATUSES, Job

PAGE, FILTERED_PAGE = 1000, 100
"""API reference, ListJobs, maxResults: up to 1,000 results with jobStatus, up to 100 with filters."""


def select(jobs: Iterable[Job], request: Mapping[str, Any]) -> Iterable[Job]:
    """Return the jobs of a queue or an array that match a ListJobs request.

    Args:
        jobs: Jobs of the queue (oldest first), or children of the array.
        request: The request's body.

    Raises:
        ClientException: If the status or the filter does not exist.
    """
    filters = request.get("filters") or []
    if filters and not request.get("arrayJobId"):
        if len(filters) > 1:
            raise ClientException("Only one filter can be used at a time")
        keep = _filter(filters[0])
        return sorted(filter(keep, jobs), key=lambda job: job.submission.created_at, reverse=True)
    status = request.get("jobStatus") or "RUNNING"
    if status not in STATUSES:
        raise ClientException(f"jobStatus {status!r} is not one of {', '.join(STATUSES)}")
    return (job for job in jobs if job.status == status)


def page(jobs: Iterable[Job], request: Mapping[str, Any]) -> tuple[list[Job], str | None]:
    """Return one page and the token of the next page, or None on the last page."""
    largest = FILTERED_PAGE if request.get("filters") else PAGE
    size = min(int(request.get("maxResults") or largest), largest)
    token = str(request.get("nextToken") or "0")
    if size < 1 or not token.isdigit():
        raise ClientException("maxResults must be at least 1, and nextToken must be a token that ListJobs returned")
    start = int(token)
    selected = list(islice(jobs, start, start + size + 1))
    return selected[:size], str(start + size) if len(selected) > size else None


def _filter(condition: Mapping[str, Any]) -> Callable[[Job], bool]:
    values = [str(value) for value in condition.get("values") or []]
    match condition.get("name"):
        case "JOB_NAME":
            return lambda job: any(_matches_pattern(value.lower(), job.submission.name.lower()) for value in values)
        case "JOB_DEFINITION":
            return lambda job: any(_has_definition(value, job) for value in values)
        case "BEFORE_CREATED_AT":
            return lambda job: any(job.submission.created_at < int(value) for value in values)
        case "AFTER_CREATED_AT":
            return lambda job: any(job.submission.created_at > int(value) for value in values)
        case name:
            raise ClientException(
                f"filter {name!r} is not one of JOB_NAME, JOB_DEFINITION, BEFORE_CREATED_AT, AFTER_CREATED_AT"
            )


def _has_definition(value: str, job: Job) -> bool:
    if value.startswith("arn:"):
        return bool(value == job.submission.definition.arn)
    return _matches_pattern(value, job.submission.definition.name)


def _matches_pattern(pattern: str, value: str) -> bool:
    return value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern
