"""Text: functions that make values safe to print, log and export."""

from __future__ import annotations

import re

_FRACTION_OF_ZEROS = re.compile(r"([-+]?\d+)\.0*", re.ASCII)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def printable(text: str) -> str:
    """Return untrusted text, such as a log line or a key, with control characters escaped by backslashes."""
    if text.isprintable():  # nearly always, and a hundred times faster
        return text
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 job", "2 jobs"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def byte_size(size: float) -> str:
    """Return a size in bytes with a decimal unit: "512 GB", "1.5 MB", "20 bytes"."""
    units = ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while size >= 999.5 and len(units) > 1:
        size = size / 1000
        _ = units.pop(0)
    return f"{size:.3g} {units[0]}" if size != 1 or units[0] != "bytes" else "1 byte"


def duration(seconds: float) -> str:
    """Return a duration in at most two units: "45s", "12m30s", "3h07m", "2d04h"."""
    whole_seconds = int(seconds)
    minutes, hours = whole_seconds // 60, whole_seconds // 3600
    if not minutes:
        return f"{whole_seconds}s"
    if not hours:
        return f"{minutes}m{whole_seconds % 60:02d}s"
    return f"{hours}h{minutes % 60:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"


def escaped_cell(text: str) -> str:
    """Return a text as a cell of an exported CSV file that no spreadsheet evaluates as a formula.

    A text that starts with `=`, `+`, `-`, `@`, a tab or a line end is prefixed with an apostrophe, unless it is a
    number (https://owasp.org/www-community/attacks/CSV_Injection). Control characters become escapes.
    """
    safe = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)
    dangerous = text.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") or text[:1] in ("\t", "\r", "\n")
    return f"'{safe}" if dangerous and not _NUMBER.fullmatch(text) else safe


def shown(value: str, width: int = 120) -> str:
    """Return a value that is safe in a log or terminal: quoted, shortened, with control characters escaped."""
    if len(value) <= width:
        return ascii(value)
    quoted = ascii(value[: width - 1])
    return f"{quoted[:-1]}…{quoted[-1]}"


def canonical(value: str) -> str:
    """Return a value in the form in which equal values are equal texts: without blanks around, and 10 for 10.0.

    The image's trainer reads both forms of a whole number, and pandas writes the second one.
    """
    text = value.strip()
    match = _FRACTION_OF_ZEROS.fullmatch(text)
    return match[1] if match else text
