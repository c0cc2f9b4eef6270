"""Ledger errors: a submission that does not exist, and an item that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.errors import TraingridError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnknownSubmissionError(UsageError):
    """The ledger has no submission with the id that the user gave."""

    def __init__(self, submission: str) -> None:
        super().__init__(f"There is no submission {submission}.", "`traingrid status` lists all submissions.")


class ItemError(TraingridError):
    """A stored item lacks a field that every version of traingrid writes.

    Args:
        item: The stored item.
        field: The missing field.
    """

    def __init__(self, item: Mapping[str, Any], field: str) -> None:
        key = f"submission {item.get('submission')!r}, item {item.get('item')!r}"
        what = f"The ledger's item ({key}) has no field {field!r}, which every version of traingrid writes."
        super().__init__(what, "Restore the item from the table's point-in-time recovery.")
