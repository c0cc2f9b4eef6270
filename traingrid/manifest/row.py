"""Manifest row: the unchecked values of one line, and the errors of lines that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from traingrid.manifest.errors import LineError
from traingrid.text import shown


@dataclass(frozen=True, kw_only=True)
class Row:
    """The values of one line.

    Attributes:
        number: The line number, from 1 as in an editor.
        values: The values by field; mappings are nested. Empty cells are omitted.
        csv: True for CSV, in which a mapping's entries are columns such as `hp.epochs`.
        misspelled: The fields that unknown columns of CSV are probably meant to be.
    """

    number: int
    values: dict[str, Any]
    csv: bool = True
    misspelled: frozenset[str] = frozenset()


def unreadable(number: int, text: str, reason: str, next_step: str) -> LineError:
    """Return the error of a line that has no readable values."""
    return LineError(line=number, field="line", value=shown(text), reason=reason, next_step=next_step)
