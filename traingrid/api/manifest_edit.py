"""Manifest edits: replaces the value of a field in a line of a manifest, before it is uploaded."""

import csv
import io
import json
from collections.abc import Sequence

from traingrid.manifest.columns import columns_of
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.rows import Row, Rows


def readable_rows(content: bytes) -> list[Row]:
    """Return the rows of a manifest that can be read; the manifest check reports the errors of the others."""
    try:
        return [row for row in Rows(chunks=[content]) if isinstance(row, Row)]
    except ManifestError:
        return []


def with_value(lines: Sequence[bytes], row: Row, field: str, value: str) -> bytes:
    """Return a row's line with another value of a field that the row has, and with its original line end.

    Args:
        lines: All lines of the manifest, with their ends.
        field: The field, which is no mapping.
    """
    line = lines[row.number - 1]
    end = line[len(line.rstrip(b"\r\n")) :]
    if not row.csv:
        return json.dumps(row.values | {field: value}).encode() + end
    rows = Rows(chunks=lines)
    next(iter(rows))
    columns, _ = columns_of(0, _cells(rows.header))
    cells = _cells(_text(line))
    cells[columns.index((field, ""))] = value
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue().encode() + end


def _text(line: bytes) -> str:
    return line.decode("utf-8-sig", errors="replace").rstrip("\r\n")


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([text], skipinitialspace=True))]
