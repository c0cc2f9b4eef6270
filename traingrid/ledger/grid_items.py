"""Grid items: the pause of launching and the progress of the daily scan, of which a grid has one each.

Each of them concerns all submissions, so a damaged one must not end a reader. Both have a safe value for that case,
which names the damage: a damaged pause is in force, and a pass with a damaged progress begins again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from traingrid.ledger.errors import ItemError
from traingrid.ledger.field_types import COUNT, EPOCH, FLAG, TEXT, TIME, check_types, map_of

if TYPE_CHECKING:
    from traingrid.ledger.damage import Damaged

GRID, LAUNCHING, HISTORY = "grid", "launching", "history"
"""The partition key and the sort keys. They never collide with a submission id, which is hexadecimal."""
_PAUSE_TYPES = {"allowed": FLAG, "at": TIME, "by": TEXT, "reason": TEXT}
_PASS_TYPES = {
    **dict.fromkeys(("began_at", "completed_at"), EPOCH),
    **dict.fromkeys(("pages", "added"), COUNT),
    "after": ("the key of an item, or empty", lambda value: value == {} or _is_key(value)),
    "listed": map_of(EPOCH),
}


def _is_key(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"submission", "item"} and all(map(TEXT[1], value.values()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """The pause of launching.

    Attributes:
        at: The time at which it began; empty if its item is damaged.
        by: The user who paused.
        damage: Its item, if it cannot be read. The pause is in force then, because launching may be paused.
    """

    at: str = ""
    by: str = ""
    reason: str = ""
    damage: Damaged | None = None

    @property
    def sentence(self) -> str:
        """Since when and why launching is paused, without a full stop."""
        if self.damage:
            return f"Launching is paused until an item is repaired. {self.damage}".removesuffix(".")
        return f"Launching has been paused since {self.at} by {self.by}: {self.reason}"

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self | None:
        """Return the pause of a stored item, or None if launching was resumed.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        check_types(item, _PAUSE_TYPES, required=("allowed", "at"))
        if item["allowed"]:
            return None
        return cls(at=item["at"], by=item.get("by", ""), reason=item.get("reason", ""))

    @classmethod
    def of(cls, item: Mapping[str, Any] | None) -> Self | None:
        """Return the pause of the stored item, if there is one; a damaged one is in force."""
        try:
            return None if item is None else cls.from_item(item)
        except ItemError as error:
            step = "Run `traingrid pause` or `traingrid resume`, which write the item again."
            return cls(damage=replace(error.damaged, next_step=step))


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryScan:
    """The progress of a scan of the whole table, which adds missing submissions to the index of open work.

    Attributes:
        began_at: The time at which it began, in seconds since 1970.
        completed_at: The time at which the last complete pass ended, in seconds since 1970; 0 before the first one.
        after: The key after which it continues; empty if no pass is in progress.
        pages: The number of pages that it has read.
        added: The number of submissions that it has added.
        listed: The time back to which training jobs are listed that no pass lists otherwise, by Region.
        damage: Its item, if it cannot be read. The other fields are those before the first pass then.
    """

    began_at: int = 0
    completed_at: int = 0
    after: Mapping[str, str] = field(default_factory=dict)
    pages: int = 0
    added: int = 0
    listed: Mapping[str, int] = field(default_factory=dict)
    damage: Damaged | None = None

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the progress of a stored item.

        Raises:
            ItemError: A field has another type.
        """
        check_types(item, _PASS_TYPES)
        return cls(**{name: item[name] for name in _PASS_TYPES if name in item})

    @classmethod
    def of(cls, item: Mapping[str, Any] | None) -> Self:
        """Return the progress of the stored item, if there is one; without one, and of a damaged one, no progress."""
        try:
            return cls() if item is None else cls.from_item(item)
        except ItemError as error:
            step = "The next pass begins the daily scan again, which replaces the item."
            return cls(damage=replace(error.damaged, next_step=step))

    def stored(self) -> dict[str, Any]:
        """Return the fields to store, without the keys."""
        return {name: value for name, value in asdict(self).items() if name in _PASS_TYPES}
