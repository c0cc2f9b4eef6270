"""Data files: reads the lines of CSV and JSON Lines files that are imported."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traingrid.errors import UsageError
from traingrid.strict_json import storable_object
from traingrid.text import shown

_FORMS = "Write CSV with a header, or JSON Lines (.jsonl)."


def lines_of(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line numbers and values of a file by column; empty cells and nulls are omitted.

    Raises:
        UsageError: The file is not text, or not in its format.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.", _FORMS) from None
    if file.suffix.lower() == ".jsonl":
        yield from _json_lines(file, text)
    else:
        yield from _csv_lines(file, text)


def _csv_lines(file: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        if repeated := [name for name in header if header.count(name) > 1]:
            raise UsageError(f"{file}:1: the column {shown(repeated[0])} occurs twice.", "Keep one of them.")
        for cells in reader:
            if len(cells) > len(header):
                raise UsageError(f"{file}:{reader.line_num}: more cells than columns.", "Quote cells with commas.")
            yield reader.line_num, {name: cell for name, cell in zip(header, cells, strict=False) if cell}
    except csv.Error as error:
        raise UsageError(f"{file}:{reader.line_num}: not CSV: {error}.", "Quote cells with commas or quotes.") from None


def _json_lines(file: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = storable_object(line)
        except ValueError as rule:  # of a number with thousands of digits, too
            raise UsageError(f"{file}:{number}: must be {rule}.", "Write one object per line.") from None
        yield number, {name: value for name, value in values.items() if value is not None}
