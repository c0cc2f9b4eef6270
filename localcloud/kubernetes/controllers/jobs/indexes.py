"""Indexes: the completion indexes of Indexed Jobs, and their text form, for example "0,2-4".

Source: pkg/controller/job/indexed_job_utils.go of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.store import Object

INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Object) -> int:
    """Return the completion index of a pod, or -1."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else -1


def parsed(text: str) -> set[int]:
    """Return the indexes of a text."""
    indexes = set[int]()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes |= set(range(int(first), int(last or first) + 1))
    return indexes


def shown(indexes: Iterable[int]) -> str:
    """Return the text of indexes."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(_range_text(first, last) for first, last in ranges)


def _range_text(first: int, last: int) -> str:
    """Return the text of a range; the server writes two indexes as a list."""
    if first == last:
        return f"{first}"
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
