"""Exports: writes the rows of a command as JSON, or as CSV that a spreadsheet opens without evaluating formulas."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from traingrid.text import escaped_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Output: TypeAlias = Literal["table", "json", "csv"]

output_option = click.option(
    "--output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Format; CSV is safe for spreadsheets.",
)
"""The option of commands that print a table. docs/commands.md describes the formats."""


def write_rows(rows: Iterable[Mapping[str, Any]], output: Output) -> None:
    """Write rows with the same keys to standard output.

    JSON is an array with an object for each row. In CSV, a list is one cell, and each entry of a mapping is a column,
    for example `metrics.loss`; a cell is never a formula, and None is an empty cell.

    Args:
        rows: The rows. Values are strings, numbers, Booleans, dates, None, lists of strings, or mappings of these.
        output: "json" or "csv".
    """
    if output == "json":
        _write_json(rows)
        return
    flat = [dict(_cells(row)) for row in rows]
    columns = dict.fromkeys(name for row in flat for name in row)
    _write_csv(list(columns), ([row.get(name) for name in columns] for row in flat))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], output: Output) -> None:
    """Write rows with the given columns to standard output; with CSV, also if there are no rows."""
    if output == "json":
        _write_json(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        _write_csv(columns, rows)


def _write_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """Write an array with one row per line, so that a large one can be read line by line."""
    lines = (json.dumps(row, default=_json_value, allow_nan=False) for row in rows)
    sys.stdout.write("[" + ",\n ".join(lines) + "]\n")


def _json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):  # or a datetime
        return value.isoformat()
    return str(value)


def _cells(row: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{entry}", value[entry]) for entry in sorted(value))
        elif isinstance(value, (list, tuple)):
            yield name, ", ".join(map(str, value))
        else:
            yield name, str(value).lower() if isinstance(value, bool) else value


def _write_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([escaped_cell(name) for name in columns])
    for row in rows:
        writer.writerow([escaped_cell(cell) if isinstance(cell, str) else cell for cell in row])
