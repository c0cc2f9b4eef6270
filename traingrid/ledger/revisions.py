"""Revisions: conditional writes of ledger items that have a number of their last change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.aws.dynamodb import Table


class Revised(Protocol):
    """An item with revisions, which is a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def revision(self) -> int:
        """The number of the item's last change."""

    def stored(self) -> Mapping[str, Any]:
        """Return the fields to store, without the keys."""


Item = TypeVar("Item", bound=Revised)


def write_revision(table: Table, key: tuple[str, str], read: Item, changed: Item) -> Item | None:
    """Write the next revision of an item.

    Args:
        read: The item as the caller read it.

    Returns:
        The item that was written; None, without a change, if another process changed it first. botocore repeats a write
        whose reply was lost: that also returns None, and the caller reads the item again.
    """
    new = replace(changed, revision=read.revision + 1)
    condition, values = "#revision = :revision", {":revision": read.revision}
    return new if table.update(key, dict(new.stored()), condition, values) else None
