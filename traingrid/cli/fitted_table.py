"""Fitted tables: tables that leave out their least important columns in a narrow terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style

from traingrid.cli.columns import Column, Row

_GAP = 2


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """A table with one line for each row.

    rich's own table measures and wraps every cell, which takes ten seconds for 10,000 rows.

    Attributes:
        title: The title; empty for none.
        headings: The heading of each column.
        cells: The text and the style of each cell, by row.
        right: Whether each column is aligned to the right.
        shortened_last: Whether each column is shortened only after all others.
        width: The width of the terminal in characters.
    """

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[tuple[str, str]]]
    right: Sequence[bool]
    shortened_last: Sequence[bool]
    width: int

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> Iterator[Segment]:
        """Yield the lines of the table."""
        widths = self._widths()
        if self.title:
            yield from (Segment(self.title, console.get_style("table.title")), Segment.line())
        heading = console.get_style("table.header")
        yield from self._line([(text, heading) for text in self.headings], widths)
        styles = {name: console.get_style(name) for name in {style for row in self.cells for _, style in row}}
        for row in self.cells:
            yield from self._line([(text, styles[style]) for text, style in row], widths)

    def _widths(self) -> list[int]:
        """Return the width of each column; if they do not fit, the widest ones are shortened."""
        columns = zip(self.headings, *([text for text, _ in row] for row in self.cells), strict=True)
        widths = [max(map(cell_len, texts)) for texts in columns]
        excess = sum(widths) + _GAP * (len(widths) - 1) - self.width
        for is_last in (False, True):
            positions = [position for position, comes_last in enumerate(self.shortened_last) if comes_last == is_last]
            while excess > 0 and (longer := [position for position in positions if widths[position] > 1]):
                widths[max(longer, key=widths.__getitem__)] -= 1
                excess -= 1
        return widths

    def _line(self, cells: Sequence[tuple[str, Style]], widths: Sequence[int]) -> Iterator[Segment]:
        """Yield the cells of a line, without spaces at its end."""
        for position, ((text, style), width) in enumerate(zip(cells, widths, strict=True)):
            fitted = text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
            spaces = " " * (width - cell_len(fitted))
            is_last = position == len(cells) - 1
            if self.right[position]:
                yield Segment(spaces)
            yield Segment(fitted, style)
            if not self.right[position] and not is_last:
                yield Segment(spaces)
            if not is_last:
                yield Segment(" " * _GAP)
        yield Segment.line()


def fitted_table(
    title: str, columns: Sequence[Column[Row]], rows: Sequence[Row], width: int, *, min_columns: int
) -> FittedTable:
    """Return a table with the columns that fit, one row each.

    Args:
        title: The title; empty for none.
        columns: All columns from left to right. Those without a heading are not in the table, and those without any
            text are left out, except the `min_columns`.
        width: The width of the terminal in characters.
        min_columns: The number of the most important columns that are shown in any terminal.
    """
    columns = [column for column in columns if column.heading]
    texts = {column.rank: [column.text(row) for row in rows] for column in columns}
    ranks = sorted(texts)
    ranks_that_fit = set(ranks[:min_columns])
    remaining_width = width + _GAP
    for column in sorted(columns, key=lambda column: column.rank):
        if column.rank not in ranks[:min_columns] and not any(texts[column.rank]):
            continue
        remaining_width -= min(max(map(len, (column.heading, *texts[column.rank]))), column.max_width) + _GAP
        if remaining_width < 0:
            break
        ranks_that_fit.add(column.rank)
    fitting = [column for column in columns if column.rank in ranks_that_fit]
    return FittedTable(
        title=title,
        headings=[column.heading for column in fitting],
        cells=[
            [(texts[column.rank][number], column.style(row)) for column in fitting] for number, row in enumerate(rows)
        ],
        right=[column.right for column in fitting],
        shortened_last=[column.fit == "whole" for column in fitting],
        width=width,
    )
