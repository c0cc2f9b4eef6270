"""Exports: CSV that a spreadsheet opens without running anything in it."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

from traingrid.cli.console import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What makes a spreadsheet take a cell for a formula (OWASP, "CSV Injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escaped(cell: str | float) -> str | float:
    """Return a cell that is text to every spreadsheet: an apostrophe before what would be a formula.

    Numbers stay numbers, also negative ones. Control characters become visible (`printable`).
    """
    if not isinstance(cell, str):
        return cell
    return ("'" if cell.startswith(_FORMULA) else "") + printable(cell)


def write_csv(rows: Iterable[Mapping[str, str | float]]) -> None:
    """Write rows of the same columns to standard output, the columns' names first."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow([escaped(name) for name in row])
        writer.writerow([escaped(cell) for cell in row.values()])
