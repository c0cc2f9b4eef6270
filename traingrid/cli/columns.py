"""Columns: the columns of a command's rows, from which its table, JSON, CSV and part of docs/cli.md follow."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

from traingrid.text import printable

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of the rows of a command.

    Attributes:
        name: Its key in JSON and CSV; empty if only the table has it.
        help: Its type and meaning, as "TYPE: MEANING". A missing value is null.
        render: Returns the text of a row's cell in the table; by default the text of the value.
        value: Returns the value of a row; by default the attribute with the column's name. A row that is a mapping has
            its values by name.
        heading: Its heading in the table; empty if only JSON and CSV have it.
        right: Whether its cells are aligned to the right.
        style: Returns the style of a row's cell.
        fit: The form of cells that are too long, in a folded table: folded into lines, with an ellipsis, or with an
            ellipsis only after all other cells are folded. A fitted table folds none, and shortens whole ones last.
        rank: Its importance in a fitted table, another number for each column; columns with the highest numbers are
            left out first.
        max_width: The characters for which other columns of a fitted table are left out. A longer cell is shortened.
    """

    name: str = ""
    help: str = ""
    render: Callable[[Row], str] | None = None
    _: KW_ONLY
    value: Callable[[Row], Any] | None = None
    heading: str = ""
    right: bool = False
    style: Callable[[Row], str] = lambda _: ""  # a default
    fit: Literal["fold", "ellipsis", "whole"] = "fold"
    rank: int = 0
    max_width: int = 1000

    def of(self, row: Row) -> Any:
        """Return the value of a row."""
        if isinstance(row, Mapping):
            return row[self.name]
        return self.value(row) if self.value else getattr(row, self.name)

    def text(self, row: Row) -> str:
        """Return the text of a row's cell in the table."""
        if self.render:
            return printable(self.render(row))
        value = self.of(row)
        return "" if value is None else printable(str(value))


class Schema(Generic[Row]):
    """The rows that a command writes. docs/cli.md shows it.

    Attributes:
        row: The thing that each row describes.
        columns: The columns, in the order of JSON, CSV and the table.
    """

    def __init__(self, row: str, *columns: Column[Row]) -> None:
        self.row = row
        self.columns = columns
        self._values = {column.name: column.value or attrgetter(column.name) for column in columns if column.name}
        self.names = list(self._values)

    @property
    def has_table(self) -> bool:
        """True if the rows are also a table. Other commands print sentences."""
        return any(column.heading for column in self.columns)

    def of(self, row: Row) -> dict[str, Any]:
        """Return the values of a row by key."""
        if isinstance(row, Mapping):
            return {name: row[name] for name in self.names}
        return {name: value(row) for name, value in self._values.items()}
