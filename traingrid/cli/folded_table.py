"""Folded tables: tables in which long cells are folded into lines in a narrow terminal."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from traingrid.cli.columns import Column, Row


def folded_table(columns: Sequence[Column[Row]], rows: Iterable[Row]) -> Table:
    """Return a table with all columns that have a heading, in which long cells are folded."""
    table_columns = [column for column in columns if column.heading]
    table = Table(box=None, pad_edge=False)
    for column in table_columns:
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            overflow="fold" if column.fit == "fold" else "ellipsis",
            no_wrap=column.fit == "whole",
        )
    for row in rows:
        table.add_row(*(Text(column.text(row), style=column.style(row)) for column in table_columns))
    return table
