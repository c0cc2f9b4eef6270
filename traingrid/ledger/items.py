"""Ledger items: pure functions of the items of submissions and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from traingrid.aws.dynamodb import Item

Line = tuple[str, int]
"""A line of a submission: the submission's id and the index of the job."""


def is_by_hand(head: Item) -> bool:
    """Return True if a user submitted the manifest to Batch; then its first child has claimed the submission."""
    return head.get("owner") is not None and head.get("owner") == head.get("batch_job")


def had_child(head: Item, index: int, status: str) -> bool:
    """Return True if the Batch job of a submission by hand has had a child for a line.

    Args:
        head: The submission's item. Its first child records the array's size; earlier versions did not, and then a
            line that Batch does not know counts as one without a child.
        index: The line.
        status: Batch's status of the line's child, or "UNKNOWN".
    """
    return index < head["children"] if "children" in head else status != "UNKNOWN"


def attempts(item: Item | None) -> dict[int, Item]:
    """Return the ledger's facts of each attempt of a line."""
    if item is None:
        return {}
    return {**{tried["attempt"]: tried for tried in item.get("tried", [])}, item["attempt"]: item}


def elsewhere(items: Iterable[Item], regions: Collection[str]) -> list[str]:
    """Return the Regions in which lines are now, other than the given ones; such Regions have left the grid."""
    return sorted({item["region"] for item in items}.difference(regions))


def regions_of(items: Iterable[Item]) -> set[str]:
    """Return the Regions of all attempts of the lines, including Regions that have left the grid."""
    return {attempt["region"] for item in items for attempt in attempts(item).values()}
