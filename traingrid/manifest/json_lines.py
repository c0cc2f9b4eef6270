"""Written manifests: writes jobs as JSON Lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traingrid.manifest.fields import MAPPINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def json_lines(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return a manifest with a line for each job.

    Args:
        jobs: The values of each job by field, or by entry of a mapping such as `hp.epochs`. None omits the field. An
            entry takes precedence over the mapping of the same job.

    Raises:
        TypeError: JSON has no form of a value.
        ValueError: A number is not finite.
    """
    return declared(len(jobs)) + "".join(json.dumps(_nested_fields(job), allow_nan=False) + "\n" for job in jobs)


def declared(number: int) -> str:
    """Return the comment with the number of jobs, from which the intake detects a truncated manifest."""
    return f"# jobs: {number}\n"


def _nested_fields(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a job without None and empty mappings, with the entries in their mappings."""
    fields = {name: value for name, value in job.items() if f"{name.partition('.')[0]}." not in MAPPINGS}
    for name, value in job.items():
        prefix, dot, entry = name.partition(".")
        if dot and f"{prefix}." in MAPPINGS and value is not None:
            mapping = MAPPINGS[f"{prefix}."]
            fields[mapping] = {**(fields.get(mapping) or {}), entry: value}
    return {name: value for name, value in fields.items() if value is not None and value != {}}
