"""Manifest tables: reads lines of CSV, with and without a header, as people and spreadsheets write them."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any

from traingrid.manifest.characters import QUOTE_STEP, character_name, typographic_quote
from traingrid.manifest.columns import INDEX_STEP, OTHER_SEPARATORS, columns_of, is_header, similar_field
from traingrid.manifest.error_values import is_error_value, may_have_error_value
from traingrid.manifest.row import Row, unreadable
from traingrid.text import shown

if TYPE_CHECKING:
    from traingrid.manifest.errors import LineError

PLAIN_COLUMNS = ["region", "s3_uri", "name"]
_PLAIN_FORM = "Write region,s3_uri or region,s3_uri,name."
# The first line with which some spreadsheets read and write their separator.
_SEPARATOR_SETTING = re.compile(r'\s*"?sep=.?"?,*\s*', re.IGNORECASE)


def cells_of(number: int, text: str) -> list[str] | LineError:
    """Return the cells of a line, without blanks around them, or the line's error.

    Args:
        number: The line number.
    """
    try:
        cells = next(csv.reader([text], strict=True, skipinitialspace=True))
        if '"' in text:
            _check_quotes(cells)
        cells = [cell.strip() for cell in cells]
    except csv.Error as error:
        reason = f"invalid CSV ({error})"
        return unreadable(
            number, text, reason, "Put a cell with commas or quotes in double quotes, and a job on one line."
        )
    if may_have_error_value(text) and (bad := next(filter(is_error_value, cells), "")):
        return unreadable(number, text, f"the cell {bad} is an error of the spreadsheet", "Correct its formula.")
    if not text.isascii():
        for position, cell in enumerate(cells, start=1):
            if quote := typographic_quote(cell):
                return unreadable(number, text, f"the cell of column {position} has {quote} around it", QUOTE_STEP)
    return cells


def _check_quotes(cells: list[str]) -> None:
    """Check that no quote follows a blank that is no space, because such a quote does not quote its cell.

    Raises:
        csv.Error: One does.
    """
    for cell in cells:
        # A cell in quotes may have a space before an escaped quote.
        if cell[:1].isspace() and not cell.startswith(" ") and cell.lstrip().startswith('"'):
            message = f"a quote after {character_name(cell[0])}"
            raise csv.Error(message)


def wrong_separator(number: int, text: str) -> LineError | None:
    """Return the error of a line whose cells are not separated by commas; None if no other separator is certain."""
    if _SEPARATOR_SETTING.fullmatch(text):
        reason = "sep= is a setting of a spreadsheet, not a job"
        return unreadable(number, text, reason, "Remove the line; commas separate the cells.")
    for separator, name in OTHER_SEPARATORS.items():
        cells = [cell.strip().strip('"') for cell in text.split(separator)]
        if len(cells) > 1 and (is_header(cells) or cells[1].startswith("s3://")):
            reason = f"the cells are separated by {name}, and those of a manifest by commas"
            next_step = "Save the file with commas between cells and points in numbers."
            return unreadable(number, text, reason, next_step)
    return None


def _missing_comma(number: int, text: str, cells: list[str]) -> LineError | None:
    """Return the error of a line whose Region and folder are separated by blanks; None for any other line."""
    if not cells[0].partition(" ")[2].lstrip().startswith("s3://"):
        return None
    return unreadable(number, text, "the comma between the Region and the folder is missing", _PLAIN_FORM)


def plain_row(number: int, text: str) -> Row | list[LineError]:
    """Return the row of a line of CSV without a header, or its error."""
    cells = cells_of(number, text)
    if not isinstance(cells, list):
        return [cells]
    _drop_padding(cells, 2)
    if error := _missing_comma(number, text, cells):
        return [error]
    if not 2 <= len(cells) <= 3:
        reason = f"a line must have 2 or 3 fields, and this one has {len(cells)}"
        return [wrong_separator(number, text) or unreadable(number, text, reason, _PLAIN_FORM)]
    region, uri, *name = cells
    values = {"region": region, "s3_uri": uri}
    if name and name[0]:
        values["name"] = name[0]
    return Row(number=number, values=values)


class CsvTable:
    """CSV with a header.

    Args:
        number: The line number of the header.

    Attributes:
        names: The names of the columns.
        errors: The errors of the columns, complete when all rows have been read.

    Raises:
        ManifestError: A column is missing or repeated, so that no row can be read.
    """

    def __init__(self, number: int, header: list[str]) -> None:
        _drop_padding(header, 0)
        self._number = number
        self.names = header
        self._columns, self.errors = columns_of(number, header)
        unknown_columns = [name for name, column in zip(header, self._columns, strict=True) if name and column is None]
        self._misspelled = frozenset(similar_field(name, csv_form=True) for name in unknown_columns)
        self._unnamed_positions = {position for position, name in enumerate(header) if not name}

    def row(self, number: int, text: str) -> Row | list[LineError]:
        """Return the row of a line, or its error."""
        cells = cells_of(number, text)
        if not isinstance(cells, list):
            return [cells]
        _drop_padding(cells, len(self._columns))
        if len(cells) != len(self._columns):
            reason = f"the line has {len(cells)} cells, and the header has {len(self._columns)}"
            next_step = "Write a cell for every column; leave it empty for the default."
            return [_missing_comma(number, text, cells) or unreadable(number, text, reason, next_step)]
        self._check_unnamed(number, cells)
        values: dict[str, Any] = {}
        for column, cell in zip(self._columns, cells, strict=True):
            if column is None or not cell:
                continue
            name, entry = column
            if entry:
                values.setdefault(name, {})[entry] = cell
            else:
                values[name] = cell
        return Row(number=number, values=values, misspelled=self._misspelled)

    def _check_unnamed(self, number: int, cells: list[str]) -> None:
        """Record the first value of each column without a name; such a column is padding if it has none."""
        for position in [position for position in self._unnamed_positions if cells[position]]:
            self._unnamed_positions.remove(position)
            reason = f"column {position + 1} has no name, and line {number} has {shown(cells[position], 40)} in it"
            self.errors.append(unreadable(self._number, "", reason, INDEX_STEP))


def _drop_padding(cells: list[str], least: int) -> None:
    """Remove empty cells from the end, with which spreadsheets fill lines, but keep at least `least` cells."""
    while len(cells) > least and not cells[-1]:
        cells.pop()
