"""Fitted tables: tables that leave out their least important columns in a narrow terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.table import Table
from rich.text import Text

from traingrid.text import printable

Row = TypeVar("Row")
_GAP = 2


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """A column of a table.

    Attributes:
        heading: Its heading.
        cell: Returns the text of a row's cell.
        rank: Its importance, another number for each column; columns with the highest numbers are left out first.
        right: Whether its cells are aligned to the right.
        style: Returns the style of a row's cell.
        most: The characters for which other columns are left out. A longer cell is shortened.
    """

    heading: str
    cell: Callable[[Row], str]
    rank: int
    right: bool = True
    style: Callable[[Row], str] = lambda _: ""  # a default
    most: int = 1000


def fitted_table(title: str, columns: Sequence[Column[Row]], rows: Sequence[Row], width: int, *, least: int) -> Table:
    """Return a table with the columns that fit, one row each.

    Args:
        title: The title; empty for none.
        columns: All columns from left to right. Those without any text are left out, except the `least`.
        rows: The rows.
        width: The width of the terminal in characters.
        least: The number of the most important columns that are shown in any terminal.
    """
    ranks = sorted(column.rank for column in columns)[:least]
    used = [column for column in columns if column.rank in ranks or any(column.cell(row) for row in rows)]
    kept, left = set(ranks), width + _GAP
    for column in sorted(used, key=lambda column: column.rank):
        texts = (column.heading, *(printable(column.cell(row)) for row in rows))
        left -= min(max(map(len, texts)), column.most) + _GAP
        if left < 0:
            break
        kept.add(column.rank)
    shown = [column for column in used if column.rank in kept]
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in shown:
        table.add_column(column.heading, justify="right" if column.right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(printable(column.cell(row)), column.style(row)) for column in shown))
    return table
