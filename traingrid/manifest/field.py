"""Manifest field: one row of the table of fields, and functions that declare rows of `LineSettings`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.manifest.allowed import Rules

    Reader = Callable[[object, Rules, str], Any]


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a line.

    Attributes:
        meaning: Its description in docs/manifest-fields.md.
        read: Returns its value from the given value, the allow-lists and the line's Region. None for a field that
            identifies the line or its data, which `traingrid.manifest.check` reads.
        prefix: The prefix of the columns of CSV that hold its entries, if it is a mapping.
        entry: The kind of name that follows the prefix, for docs/manifest-fields.md.
        read_entry: Returns the value of one entry of a mapping.
        job: The attribute of a job that has its value; empty if the value of the attribute also depends on others.
        not_on_eks: Why a job with it cannot run on EKS; empty if it can.
        of_plan: True if it is for a plan or the account of costs only, and does not change the training.
    """

    name: str = ""
    meaning: str
    read: Reader | None = None
    prefix: str = ""
    entry: str = "<name>"
    read_entry: Callable[[str, object], Any] | None = None
    job: str = ""
    not_on_eks: str = ""
    of_plan: bool = False


def optional(read: Callable[[object], Any], meaning: str, **options: Any) -> Any:
    """Return an optional field whose reader needs only the value."""
    return allowed(lambda value, _rules, _region: read(value), meaning, **options)


def allowed(read: Reader, meaning: str, **options: Any) -> Any:
    """Return an optional field whose reader also needs the allow-lists and the line's Region."""
    return dataclasses.field(default=None, metadata={"field": Field(meaning=meaning, read=read, **options)})


def mapping(prefix: str, read_entry: Callable[[str, object], str], meaning: str, **options: Any) -> Any:
    """Return a field that maps names to texts."""
    row = Field(meaning=meaning, prefix=prefix, read_entry=read_entry, **options)
    return dataclasses.field(default_factory=dict, metadata={"field": row})
