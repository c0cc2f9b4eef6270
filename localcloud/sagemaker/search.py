"""Search for training jobs: filters, order and pages (Search and Filter in SageMaker's service model)."""

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from botocore.loaders import Loader
from moto.sagemaker.exceptions import AWSValidationException

from localcloud.sagemaker.job import TrainingJob

PAGE = 10
"""Number of results on a page without MaxResults; the service model allows up to 100."""
_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
}


def search(jobs: Sequence[TrainingJob], request: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """Return the records of one page and the token of the next page, or None on the last page.

    Args:
        jobs: All jobs of the account and Region.
        request: The request of Search with the resource TrainingJob.

    Raises:
        AWSValidationException: If a property does not exist, or localcloud does not support the expression.
    """
    expression = request.get("SearchExpression") or {}
    for name in ("NestedFilters", "SubExpressions"):
        if expression.get(name):
            raise AWSValidationException(f"{name} is not supported by localcloud; use Filters")
    filters = expression.get("Filters") or []
    combine = all if expression.get("Operator", "And") == "And" else any
    records = [{**job.response_object, "Tags": list(job.tags)} for job in jobs]
    matching_records = [
        record for record in records if not filters or combine(_passes(record, condition) for condition in filters)
    ]
    key = request.get("SortBy", "LastModifiedTime")
    matching_records = [record for record in matching_records if _value(record, key) is not None]
    matching_records.sort(
        key=lambda record: _value(record, key), reverse=request.get("SortOrder", "Descending") == "Descending"
    )
    start = int(request.get("NextToken") or 0)
    size = int(request.get("MaxResults") or PAGE)
    end = start + size
    return matching_records[start:end], str(end) if end < len(matching_records) else None


def _passes(record: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    value = _value(record, condition["Name"])
    text = str(condition.get("Value", ""))
    kind = condition.get("Operator", "Equals")
    if kind in ("Exists", "NotExists"):
        return bool((value is not None) == (kind == "Exists"))
    if value is None:
        return False
    if kind in _ORDERED:
        return bool(_ORDERED[kind](*_comparable(value, text)))
    if kind == "Contains":
        return text in str(value)
    if kind == "In":
        return str(value) in text.split(",")
    return bool((str(value) == text) == (kind == "Equals"))


def _comparable(value: Any, text: str) -> tuple[Any, Any]:
    """Return a property and a filter's text as numbers or times."""
    try:
        if isinstance(value, datetime):
            time = datetime.fromisoformat(text)
            return value, time if time.tzinfo else time.replace(tzinfo=UTC)
        return float(value), float(text)
    except ValueError as error:
        raise AWSValidationException(
            f"{text!r} is neither a number nor a time of the form YYYY-mm-ddTHH:MM:SS"
        ) from error


def _value(record: Mapping[str, Any], name: str) -> Any:
    """Return a property by its name in Search; None if the job has no such tag, metric or property."""
    kind, _, member = name.partition(".")
    if kind == "Tags" and member:
        return next((tag["Value"] for tag in record["Tags"] if tag["Key"] == member), None)
    if kind == "Metrics" and member:
        metrics = record.get("FinalMetricDataList") or []
        return next((metric["Value"] for metric in metrics if metric["MetricName"] == member), None)
    shape = "TrainingJob"
    value: Any = dict(record)
    for part in name.split(".", 1) if kind == "HyperParameters" else name.split("."):
        members = _members(shape)
        if members is not None and part not in members:
            raise AWSValidationException(f"Unknown property name: {name}")
        shape = members[part]["shape"] if members is not None else ""
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _members(shape: str) -> Mapping[str, Any] | None:
    """Return the members of a structure of the service model; None for other shapes."""
    members: Mapping[str, Any] | None = _shapes().get(shape, {}).get("members")
    return members


@cache
def _shapes() -> Mapping[str, Any]:
    shapes: Mapping[str, Any] = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    return shapes
