"""Manifest comments: lines without a job, and the declaration `# jobs: 4` among them."""

from __future__ import annotations

import csv
import re
import unicodedata
from typing import TYPE_CHECKING

from traingrid.manifest.characters import visible
from traingrid.manifest.error_values import is_error_value, is_too_narrow

if TYPE_CHECKING:
    from collections.abc import Sequence

_PADDING = ' \t\xa0",;'
"""A spreadsheet ends a comment with the separators of empty cells, and puts one with a comma in quotes."""
_DECLARED = re.compile(r"#\s*jobs\s*:\s*([0-9]{1,9})")
# "# jobs: two", "# total number of jobs = 2", "# jobs,2", "# lines: 2" and "# 2 jobs in total".
_TOTAL = r"(in total|total|the|number|count|no|of|is|are)"
_BETWEEN = r"[\s:=,;.()\"-]{1,3}"
_NUMBER = r"\d[\d.,]*"
_ALMOST_DECLARED = re.compile(
    rf"(number of )?jobs\s*[:=]|job\s*[:=,]\s*{_NUMBER}$"
    rf"|({_TOTAL}{_BETWEEN})*(jobs|lines|rows)({_BETWEEN}{_TOTAL})*{_BETWEEN}{_NUMBER}({_BETWEEN}{_TOTAL})?$"
    rf"|{_NUMBER}\s+jobs?({_BETWEEN}{_TOTAL})?$",
    re.IGNORECASE,
)
_REGION = re.compile(r"[a-z]{2,3}(-[a-z]+){1,2}-\d{1,2}", re.IGNORECASE)
_PLACES = ("region", "s3_uri")
"""The columns whose values never begin with #."""


def is_empty(text: str) -> bool:
    """Return True if a line of CSV has only blanks and empty cells, as spreadsheets append them."""
    return not text.replace('""', "").replace(",", "").strip()


def comment_of(text: str) -> str:
    """Return the comment in a line, from its `#` and without a spreadsheet's padding; empty if it is no comment."""
    comment = text.lstrip().removeprefix('"').lstrip()
    if not comment.startswith("#"):
        return ""
    first_cell = comment.partition(",")[0].rstrip(_PADDING)
    comment = comment.rstrip(_PADDING)
    if is_error_value(first_cell) and not is_too_narrow(comment):  # a line of data, whose first cell is `#N/A`
        return ""
    return comment


def has_cells_of_job(text: str, columns: Sequence[str]) -> bool:
    """Return True if a line of CSV that begins with `#` may be a job.

    Such a line has a Region or an S3 URI in a cell, or as many cells as the header. It is a comment if the first column
    is that of the Region or of the data and the `#` is before such a value: a job without which the file is submitted.

    Args:
        columns: The names of the columns.
    """
    cells = _cells(text)
    first_cell = cells[0].lstrip("# ")
    other_cells = [cell for cell in cells[1:] if cell]
    if columns[0] in _PLACES:
        return not _is_place(first_cell) and any(cell.startswith("s3://") for cell in other_cells)
    return any(map(_is_place, other_cells)) or (len(cells) == len(columns) and len(other_cells) > 1)


def _cells(text: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([text.strip()], skipinitialspace=True))]
    except csv.Error:  # a cell of more than 131,072 characters
        return [cell.strip(' "') for cell in text.split(",")]


def _is_place(cell: str) -> bool:
    return cell.startswith("s3://") or bool(_REGION.fullmatch(cell))


def declared_jobs(comment: str) -> int | None:
    """Return the number of jobs that a comment declares; None if it is no declaration."""
    match = _DECLARED.fullmatch(comment)
    return int(match[1]) if match else None


def is_almost_declared(comment: str) -> bool:
    """Return True if a comment that is no declaration was probably meant as one, such as `# jobs = 4`."""
    # The compatible form of full-width digits and colons, which look right, is ASCII.
    text = visible(re.sub(r"\s", " ", unicodedata.normalize("NFKC", comment[:200])))
    return bool(_ALMOST_DECLARED.match(text.lstrip('# .,;:()-"').rstrip(' .,;()"')))
