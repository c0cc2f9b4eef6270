"""Open marks: the index of submissions with open work."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from traingrid.ledger.errors import ItemError
from traingrid.ledger.field_types import TEXT, TIME_OR_EMPTY, check_types
from traingrid.names import OPEN_SUBMISSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.aws.dynamodb import Item
    from traingrid.ledger.damage import Damaged

_MARK_TYPES = {"mark": TEXT, "at": TIME_OR_EMPTY}


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenMark:
    """The entry of a submission in the index of open work.

    Attributes:
        mark: A unique value, which changes whenever work of the submission begins.
        at: The time at which it was written, after which work may begin; empty if no work begins because of it, or if
            the entry is damaged.
        damage: The entry, if it cannot be read. The submission has open work then.
    """

    mark: str = ""
    at: str = ""
    damage: Damaged | None = None

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Self:
        """Return the mark of a stored item, which may be damaged."""
        try:
            check_types(item, _MARK_TYPES, required=("mark",))
        except ItemError as error:
            step = "The next pass writes it again, and removes it once the submission has ended."
            return cls(damage=replace(error.damaged, next_step=step))
        return cls(mark=item["mark"], at=item.get("at", ""))


def new_mark(submission: str) -> Item:
    """Return the item of a new mark, without a time."""
    return {"submission": OPEN_SUBMISSIONS, "item": submission, "mark": uuid.uuid4().hex}
