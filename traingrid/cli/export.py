"""Exports: writes CSV that a spreadsheet opens without evaluating formulas."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

from traingrid.text import escaped_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def write_csv(rows: Iterable[Mapping[str, str | float]]) -> None:
    """Write a header and rows with the same columns to standard output; no cell is a formula."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow([escaped_cell(name) for name in row])
        writer.writerow([escaped_cell(cell) if isinstance(cell, str) else cell for cell in row.values()])


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a header and rows to standard output; no cell is a formula, and None is an empty cell."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([escaped_cell(name) for name in columns])
    for row in rows:
        writer.writerow([escaped_cell(cell) if isinstance(cell, str) else cell for cell in row])
