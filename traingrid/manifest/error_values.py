"""Error values: recognises cells in which a spreadsheet has an error in place of a value."""

from __future__ import annotations

import re

# Excel translates the error values of its function ERROR.TYPE and keeps # at the start. These have no mark at the end,
# unlike #WERT! and #NOMBRE?.
_WITHOUT_MARK = frozenset(
    {"#N/A", "#NV", "#N/D", "#N/B", "#I/T", "#\u041d/\u0414", "#YOK", "#HI\xc1NYZIK", "#GETTING_DATA"}
)
# Google Sheets, until a formula has been calculated.
_LOADING = "#LOADING..."
_TOO_NARROW = re.compile("#{3,}")
"""A number in a column that is too narrow. `##` may be a value: the prefix of WordPiece tokens."""
# LibreOffice (https://help.libreoffice.org/latest/en-US/text/scalc/05/02140000.html).
_NUMBERED = re.compile(r"Err\s?:5\d\d")


def may_have_error_value(text: str) -> bool:
    """Return True if a cell of a line can be an error value; fast, because hardly any line has one."""
    return "#" in text or "Err" in text


def is_error_value(cell: str) -> bool:
    """Return True if a cell is a spreadsheet's error value, such as #REF!, #WERT!, #NV, Err:502 or ########."""
    if not cell.startswith("#"):
        return bool(_NUMBERED.fullmatch(cell))
    if is_too_narrow(cell) or cell.upper() == _LOADING or cell in _WITHOUT_MARK:
        return True
    return cell.endswith(("!", "?")) and cell.isupper() and not re.search(r"\s", cell)


def is_too_narrow(cell: str) -> bool:
    """Return True if a cell is ########, which alone on a line is a comment."""
    return bool(_TOO_NARROW.fullmatch(cell))
