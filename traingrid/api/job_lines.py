"""Job lines: converts the jobs that a Python program gives into a manifest."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from traingrid.errors import UsageError
from traingrid.manifest.json_lines import json_lines
from traingrid.text import shown


class DataFrame(Protocol):
    """The part of a pandas DataFrame that is used; pandas is not required."""

    def to_dict(self, orient: Literal["records"]) -> Iterable[Mapping[Any, Any]]:
        """Return a dictionary for each row."""


Jobs: TypeAlias = Iterable[Mapping[str, Any]] | DataFrame


def rows_of(jobs: Jobs | list[object]) -> list[object]:
    """Return the entries of a list of jobs, or the rows of a pandas DataFrame; they are not checked.

    Raises:
        UsageError: The jobs are neither.
    """
    rows = jobs.to_dict("records") if hasattr(jobs, "to_dict") and not isinstance(jobs, Mapping) else jobs
    if isinstance(rows, (Mapping, str, bytes)) or not isinstance(rows, Iterable):
        text = f"The jobs are a {type(jobs).__name__}, not a list of dictionaries or a DataFrame."
        raise UsageError(text, 'Give a list, for example [{"region": "us-east-1", "s3_uri": "s3://…"}], or a path.')
    return list(rows)


def manifest_of(jobs: Jobs | list[object]) -> bytes:
    """Return the manifest of jobs, in JSON Lines.

    Args:
        jobs: A dictionary for each job with the fields of a manifest, or a pandas DataFrame with a row for each job and
            the fields as columns. None and NaN leave a field out.

    Raises:
        UsageError: There are no jobs, one is not a dictionary, or a value cannot be written as JSON.
    """
    values = [_values(number, row) for number, row in enumerate(rows_of(jobs))]
    if not values:
        raise UsageError("There are no jobs to submit.", "Give at least one.")
    return json_lines(values).encode()


def _values(number: int, row: object) -> dict[str, Any]:
    """Return the fields of a job that have a value, with the values of numpy as those of Python."""
    if not isinstance(row, Mapping):
        text = f"Job {number} is a {type(row).__name__}, not a dictionary."
        raise UsageError(text, "Give the fields of a manifest by name.")
    return {str(name): _json_value(f"job {number}, {name}", value) for name, value in row.items()}


def _json_value(place: str, value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):  # an empty cell of a DataFrame
        return None
    if value is None or isinstance(value, (bool, str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _json_value(f"{place}.{name}", entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(place, entry) for entry in value]
    if hasattr(value, "item") and callable(value.item):  # a scalar of numpy
        return _json_value(place, value.item())
    text = f"{place}: {shown(str(value))} is a {type(value).__name__}, which a manifest cannot contain."
    raise UsageError(text, "Give a string, a finite number, a Boolean, a list or a dictionary.")
