"""Manifest rows: reads the three forms of a manifest line by line into rows of one type.

A row holds the unchecked values of one line, by field: text from CSV, JSON values from JSON Lines.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.manifest.columns import columns_of, is_header
from traingrid.manifest.errors import LineError, ManifestError, file_error
from traingrid.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_BYTES = 32 * 1024 * 1024
"""The maximum size of a manifest in bytes: 50,000 lines of 670 bytes. The intake function holds it in memory."""
MAX_LINE_BYTES = 512 * 1024
"""The maximum size of a line in bytes; 100 hyperparameters of SageMaker's maximum length take 276,000 characters."""
PLAIN_FORM = "Write region,s3_uri or region,s3_uri,name."

_DECLARED = re.compile(r"\s*#\s*jobs\s*:\s*(\d{1,9})\s*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Row:
    """The values of one line.

    Attributes:
        number: The line number, from 1 as in an editor.
        values: The values by field; mappings are nested. Empty cells are omitted.
        csv: True for CSV, in which a mapping's entries are columns such as `hp.epochs`.
    """

    number: int
    values: dict[str, Any]
    csv: bool = True


@dataclass(kw_only=True)
class Rows:
    """The rows of a manifest, to be iterated over once.

    Attributes:
        chunks: The file's bytes, in chunks of any size.
        declared: The number of jobs in a comment `# jobs: 4`, or None. Set when the rows have been read.
        ended: True if the last line has a line end; a truncated file seldom has one.
        header_errors: The errors of the header's columns.
    """

    chunks: Iterable[bytes]
    declared: int | None = field(default=None, init=False)
    ended: bool = field(default=True, init=False)
    header_errors: list[LineError] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[Row | list[LineError]]:
        """Yield the row or the errors of each line, except blank lines, comments and the header.

        Raises:
            ManifestError: The file is too large or is not text.
        """
        form: _Form | None = None
        for number, line in enumerate(self._lines(), start=1):
            text = _text(number, line)
            if isinstance(text, str):
                text = text.rstrip("\r\n")
                if not text.strip() or text.lstrip().startswith("#"):
                    self._remark(text)
                    continue
            if form is None and isinstance(text, str):
                form, self.header_errors = _form_of(number, text)
                if form.has_header:
                    continue
            if isinstance(text, LineError):
                yield [text]
            elif form is not None:
                yield form.read(number, text)

    def _lines(self) -> Iterator[bytes]:
        """Yield lines with their line ends (LF, CRLF or CR); truncate lines that are too long."""
        rest, total = b"", 0
        for chunk in self.chunks:
            if not total:
                _refuse_other_formats(chunk)
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901  # of the first chunk only
            total += len(chunk)
            if total > MAX_BYTES:
                raise too_large(total)
            *lines, rest = (rest[: MAX_LINE_BYTES + 1] + chunk).splitlines(keepends=True) or [b""]
            if rest.endswith(b"\n"):
                lines, rest = [*lines, rest], b""
            yield from lines
        self.ended = not rest or rest.endswith(b"\r")
        if rest:
            yield rest

    def _remark(self, text: str) -> None:
        match = _DECLARED.fullmatch(text)
        if match:
            self.declared = int(match[1])


def too_large(size: int) -> ManifestError:
    """Return the error for a file of `size` bytes, which exceeds the maximum size of a manifest."""
    return file_error(
        f"the file has {size:,} bytes or more, and a manifest may have at most {MAX_BYTES:,}",
        "Split it into several files.",
    )


def _refuse_other_formats(start: bytes) -> None:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise file_error("the file is UTF-16 text", "Save it as UTF-8 ('CSV UTF-8' in a spreadsheet).")
    if start.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise file_error("the file is compressed or in a spreadsheet's format", "Upload it as CSV or JSON Lines text.")


def _text(number: int, line: bytes) -> str | LineError:
    """Return a line's text.

    Raises:
        ManifestError: The line has a NUL byte. The file is not text, and its other lines would repeat the error.
    """
    if b"\0" in line:
        reason = f"line {number} has a NUL byte, so the file is not UTF-8 text"
        raise file_error(reason, "Save it as UTF-8 text ('CSV UTF-8' in a spreadsheet).")
    if len(line) > MAX_LINE_BYTES:
        reason = f"a line may have at most {MAX_LINE_BYTES:,} bytes, and this one is longer"
        return _line_error(number, line[:200].decode(errors="replace"), reason, "Write one job per line.")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} of the line is not UTF-8 text"
        bad = line[error.start : error.start + 8].hex(" ")
        return LineError(line=number, field="line", value=bad, reason=reason, next_step="Save the file as UTF-8 text.")


def _line_error(number: int, text: str, reason: str, next_step: str) -> LineError:
    return LineError(line=number, field="line", value=shown(text), reason=reason, next_step=next_step)


@dataclass(frozen=True, kw_only=True)
class _Form:
    has_header: bool = False
    read: Callable[[int, str], Row | list[LineError]]


def _form_of(number: int, text: str) -> tuple[_Form, list[LineError]]:
    """Return the form of the file, from its first line that is not blank or a comment, and the errors of a header."""
    if text.lstrip().startswith(("{", "[")):
        return _Form(read=_json_row), []
    cells = _cells(number, text)
    if isinstance(cells, LineError) or not is_header(cells):
        return _Form(read=_plain_row), []
    columns, errors = columns_of(number, cells)

    def read(line: int, content: str) -> Row | list[LineError]:
        return _row_of_columns(line, content, columns)

    return _Form(has_header=True, read=read), errors


def _cells(number: int, text: str) -> list[str] | LineError:
    try:
        return [cell.strip() for cell in next(csv.reader([text], strict=True))]
    except csv.Error as error:
        reason = f"invalid CSV ({error})"
        return _line_error(
            number, text, reason, "Put a cell with commas or quotes in double quotes, and a job on one line."
        )


def _plain_row(number: int, text: str) -> Row | list[LineError]:
    cells = _cells(number, text)
    if isinstance(cells, LineError):
        return [cells]
    if not 2 <= len(cells) <= 3:
        return [_line_error(number, text, f"a line must have 2 or 3 fields, and this one has {len(cells)}", PLAIN_FORM)]
    region, uri, *name = cells
    return Row(
        number=number, values={"region": region, "s3_uri": uri} | ({"name": name[0]} if name and name[0] else {})
    )


def _row_of_columns(number: int, text: str, columns: list[tuple[str, str] | None]) -> Row | list[LineError]:
    cells = _cells(number, text)
    if isinstance(cells, LineError):
        return [cells]
    if len(cells) != len(columns):
        reason = f"the line has {len(cells)} cells, and the header has {len(columns)}"
        return [_line_error(number, text, reason, "Write a cell for every column; leave it empty for the default.")]
    values: dict[str, Any] = {}
    for column, cell in zip(columns, cells, strict=True):
        if column is None or not cell:
            continue
        name, entry = column
        if entry:
            values.setdefault(name, {})[entry] = cell
        else:
            values[name] = cell
    return Row(number=number, values=values)


def _json_row(number: int, text: str) -> Row | list[LineError]:
    example = 'Write one object per line: {"region": "us-east-1", "s3_uri": "s3://bucket/folder"}.'
    try:
        values = json.loads(
            text, object_pairs_hook=_unrepeated, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        return [_line_error(number, text, f"invalid JSON: {error.msg} at character {error.pos + 1}", example)]
    except ValueError as error:
        return [_line_error(number, text, str(error), example)]
    except RecursionError:
        return [_line_error(number, text, "the JSON is nested too deeply", example)]
    if not isinstance(values, dict):
        return [_line_error(number, text, "the line must be a JSON object", example)]
    return Row(number=number, values=values, csv=False)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add() returns None by design
        raise ValueError(f"the key {shown(twice)} occurs twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {shown(text, 20)} is too large")
    return number


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"the number {shown(text, 20)} is too large")
    return int(text)
