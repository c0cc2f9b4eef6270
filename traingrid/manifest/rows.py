"""Manifest rows: reads the three forms of a manifest line by line into rows of one type.

A row holds the unchecked values of one line, by field: text from CSV, JSON values from JSON Lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.manifest.columns import are_columns, is_header
from traingrid.manifest.comments import comment_of, declared_jobs, has_cells_of_job, is_almost_declared, is_empty
from traingrid.manifest.encoding import MAX_LINE_BYTES, check_text_format, line_text
from traingrid.manifest.errors import LineError, ManifestError, file_error
from traingrid.manifest.json_row import json_row
from traingrid.manifest.row import Row, unreadable
from traingrid.manifest.table import PLAIN_COLUMNS, CsvTable, cells_of, plain_row, wrong_separator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    _Reader = Callable[[int, str], Row | list[LineError]]

__all__ = ["MAX_BYTES", "Row", "Rows", "too_large"]

MAX_BYTES = 32 * 1024 * 1024
"""The maximum size of a manifest in bytes: 50,000 lines of 670 bytes. The intake function holds it in memory."""

_DROPPED_JOB = (
    "Move the column region to the first place: then other cells may begin with #, and # before the Region makes a "
    "line a comment."
)


@dataclass(kw_only=True)
class Rows:
    """The rows of a manifest, to be iterated over once.

    Attributes:
        chunks: The file's bytes, in chunks of any size.
        declared: The number of jobs in a comment `# jobs: 4`, or None. Set when the rows have been read.
        ended: True if the last line has a line end; a truncated file seldom has one.
        header: The header's text; empty if the file has none. Set when the first row has been read.
    """

    chunks: Iterable[bytes]
    declared: int | None = field(default=None, init=False)
    ended: bool = field(default=True, init=False)
    header: str = field(default="", init=False)
    _table: CsvTable | None = field(default=None, init=False)
    _commented_header: LineError | None = field(default=None, init=False)

    @property
    def header_errors(self) -> list[LineError]:
        """The errors of the header's columns, complete when the rows have been read."""
        return self._table.errors if self._table else []

    def __iter__(self) -> Iterator[Row | list[LineError]]:
        """Yield the row or the errors of each line, except empty lines, comments and the header.

        Raises:
            ManifestError: The file is too large, is not text, or has another separator.
        """
        reader: _Reader | None = None
        for number, line in enumerate(self._lines(), start=1):
            text = line_text(number, line)
            if isinstance(text, LineError):
                yield [text]
                continue
            if not text.strip() or (reader is not json_row and is_empty(text)):
                continue
            if comment := comment_of(text):
                if error := self._comment_error(number, comment) or self._dropped_job(number, text, reader):
                    yield [error]
                continue
            if reader is None:
                reader = self._reader(number, text)
                if self.header:
                    continue
                if reader is plain_row and self._commented_header:
                    yield [self._commented_header]
            yield reader(number, text)

    def _reader(self, number: int, text: str) -> _Reader:
        """Return the reader of the file's form, from its first line that is not empty or a comment.

        Raises:
            ManifestError: The line has another separator than commas, or the header lacks or repeats a column.
        """
        if text.lstrip().startswith(("{", "[")):
            return json_row
        cells = cells_of(number, text)
        if isinstance(cells, list) and is_header(cells):
            self.header, self._table = text, CsvTable(number, cells)
            return self._table.row
        is_plain = isinstance(cells, list) and len(cells) > 1 and cells[1].startswith("s3://")
        if not is_plain and (error := wrong_separator(number, text)):
            raise ManifestError([error])
        return plain_row

    def _comment_error(self, number: int, comment: str) -> LineError | None:
        """Record the number of jobs that a comment declares, or return the error of one that seems to declare it."""
        jobs = declared_jobs(comment)
        if jobs is not None:
            earlier, self.declared = self.declared, jobs
            if earlier in (None, jobs):
                return None
            reason = f"the comment declares {jobs} jobs, and an earlier one declares {earlier}"
            return unreadable(number, comment, reason, "Remove the wrong one.")
        if is_almost_declared(comment):
            reason = "the comment looks like the number of jobs, and is not read as one"
            next_step = "Write it as # jobs: 4, with nothing after the number, or use other words."
            return unreadable(number, comment, reason, next_step)
        cells = cells_of(number, comment.lstrip("# "))
        if isinstance(cells, list) and are_columns(cells) and cells != PLAIN_COLUMNS[: len(cells)]:
            reason = "the names of the columns are in a comment, so they are not read"
            self._commented_header = unreadable(number, comment, reason, "Remove the # before them.")
        return None

    def _dropped_job(self, number: int, text: str, read: _Reader | None) -> LineError | None:
        """Return the error of a comment that has the cells of a job, so that no job is left out silently."""
        if read is json_row or not has_cells_of_job(text, self._table.names if self._table else PLAIN_COLUMNS):
            return None
        return unreadable(number, text, "the line begins with #, and has the cells of a job", _DROPPED_JOB)

    def _lines(self) -> Iterator[bytes]:
        """Yield lines with their line ends (LF, CRLF or CR); truncate lines that are too long."""
        unfinished, total = b"", 0
        for chunk in self.chunks:
            if not total:
                check_text_format(chunk)
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901  # of the first chunk only
            total += len(chunk)
            if total > MAX_BYTES:
                raise too_large(total)
            *lines, unfinished = (unfinished[: MAX_LINE_BYTES + 1] + chunk).splitlines(keepends=True) or [b""]
            if unfinished.endswith(b"\n"):
                lines, unfinished = [*lines, unfinished], b""
            yield from lines
        self.ended = not unfinished or unfinished.endswith(b"\r")
        if unfinished:
            yield unfinished


def too_large(size: int) -> ManifestError:
    """Return the error for a file of `size` bytes, which exceeds the maximum size of a manifest."""
    return file_error(
        f"the file has {size:,} bytes or more, and a manifest may have at most {MAX_BYTES:,}",
        "Split it into several files.",
    )
