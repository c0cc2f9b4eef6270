"""Manifest comments: lines without a job, and the declaration `# jobs: 4` among them."""

from __future__ import annotations

import re
import unicodedata

_PADDING = ' \t\xa0",;'
"""A spreadsheet ends a comment with the separators of empty cells, and puts one with a comma in quotes."""
_DECLARED = re.compile(r"#\s*jobs\s*:\s*([0-9]{1,9})")
_ALMOST_DECLARED = re.compile(r"[#\s]*(number of )?(jobs\s*[:=]|jobs\s+[\d.,]+$|job\s*[:=]\s*[\d.,]+$)", re.IGNORECASE)
# The error values of Excel, Google Sheets and LibreOffice that begin with #.
_ERROR_VALUES = ("#REF!", "#N/A", "#NAME?", "#VALUE!", "#DIV/0!", "#NULL!", "#NUM!", "#SPILL!", "#CALC!", "#ERROR!")


def is_error_value(cell: str) -> bool:
    """Return True if a cell is a spreadsheet's error value, such as #REF!."""
    return cell in _ERROR_VALUES


def is_empty(text: str) -> bool:
    """Return True if a line of CSV has only blanks and empty cells, as spreadsheets append them."""
    return not text.replace('""', "").replace(",", "").strip()


def comment_of(text: str) -> str:
    """Return the comment in a line, from its `#` and without a spreadsheet's padding; empty if it is no comment."""
    comment = text.lstrip().removeprefix('"').lstrip()
    if not comment.startswith("#") or comment.startswith(_ERROR_VALUES):
        return ""
    return comment.rstrip(_PADDING)


def declared_jobs(comment: str) -> int | None:
    """Return the number of jobs that a comment declares; None if it is no declaration."""
    match = _DECLARED.fullmatch(comment)
    return int(match[1]) if match else None


def is_almost_declared(comment: str) -> bool:
    """Return True if a comment that is no declaration was probably meant as one, such as `# jobs = 4`."""
    # The compatible form of full-width digits and colons, which look right, is ASCII.
    return bool(_ALMOST_DECLARED.match(unicodedata.normalize("NFKC", comment[:200])))
