"""Manifests from queries: converts the rows of a result to the lines of a manifest."""

from __future__ import annotations

import csv
import io
import math
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from traingrid.errors import UsageError
from traingrid.job.sizes import MAX_JOBS
from traingrid.manifest.columns import unknown_field
from traingrid.manifest.fields import FIELDS, MAPPINGS
from traingrid.manifest.json_lines import declared, json_lines
from traingrid.strict_json import storable_object
from traingrid.text import shown

if TYPE_CHECKING:
    from traingrid.catalog.query import Result

_DATA = ("s3_uri", "inputs")
_BOOLEANS = ("spot", "checkpoints")
_SHOWN_ERRORS = 20


def manifest_of(result: Result, *, as_csv: bool = False) -> str:
    """Return the manifest of a query's result: JSON Lines, or CSV with a header.

    A column is a field of a line, an entry of a mapping such as `hp.epochs`, or a mapping as JSON text. NULL omits the
    field. An entry takes precedence over the mapping of the same row.

    Args:
        as_csv: Write CSV, which has no place for a mapping as JSON text.

    Raises:
        UsageError: The result has no rows or unknown columns, a required column is missing, or a value fits no field.
    """
    _check_columns(result.columns, as_csv=as_csv)
    if not result.rows:
        raise UsageError("The query returns no rows, so there is no manifest.", "Check its conditions.")
    if len(result.rows) > MAX_JOBS:
        message = f"The query returns {len(result.rows):,} rows, and a manifest has at most {MAX_JOBS:,} lines."
        raise UsageError(message, "Add a LIMIT.")
    lines, errors = [], []
    for number, row in enumerate(result.rows, start=1):
        try:
            lines.append(_line(result.columns, row))
        except ValueError as error:
            errors.append(f"row {number}: {error}")
    if errors:
        text = "\n".join(["The query's result is no manifest.", *errors[:_SHOWN_ERRORS]])
        raise UsageError(text, "Correct the query.")
    return _csv_text(result.columns, lines) if as_csv else json_lines(lines)


def _check_columns(columns: tuple[str, ...], *, as_csv: bool) -> None:
    """Raise UsageError unless the columns of a query are fields of a job, with a Region and data."""
    fields = {*FIELDS} - ({*MAPPINGS.values()} if as_csv else set())
    for name in columns:
        prefix, _, entry = name.partition(".")
        if name not in fields and not (entry and f"{prefix}." in MAPPINGS):
            if name in MAPPINGS.values():
                raise UsageError(
                    f"A CSV manifest has no column {name}.", "Write JSON Lines, or a column for each entry."
                )
            error = unknown_field(0, name, csv_form=True)
            raise UsageError(f"The query's column {shown(name)} is no field of a job.", error.next_step)
        if columns.count(name) > 1:
            raise UsageError(f"The query has the column {shown(name)} twice.", "Rename one with AS.")
    if "region" not in columns:
        raise UsageError("The query has no column region, which every job requires.", "Add it with AS region.")
    if not any(name in _DATA or name.startswith("input.") for name in columns):
        raise UsageError("The query has no column s3_uri, inputs or input.<channel>.", "Add one of them with AS.")


def _line(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    """Return the values of a line by column.

    Raises:
        ValueError: A value fits no field, or the line has no Region or no data; the text names the column.
    """
    line = {name: _json_value(name, value) for name, value in zip(columns, row, strict=True)}
    if not line["region"]:
        message = "the column region is empty"
        raise ValueError(message)
    if not any(value for name, value in line.items() if name in _DATA or name.startswith("input.")):
        message = "no column has data: s3_uri, inputs or input.<channel>"
        raise ValueError(message)
    return line


def _json_value(name: str, value: Any) -> Any:
    """Return a database's value as a JSON value.

    Raises:
        ValueError: It has none; the text names the column.
    """
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        message = f"the column {name} is {value}, which is not a finite number"
        raise ValueError(message)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if name in _BOOLEANS and not isinstance(value, bool) and value in (0, 1):  # SQLite has no booleans
        return bool(value)
    if isinstance(value, date):  # or a datetime
        return value.isoformat()
    if name in MAPPINGS.values() and value is not None:
        return _mapping(name, value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    message = f"the column {name} is a {type(value).__name__}, which a manifest cannot hold"
    raise ValueError(message)


def _mapping(name: str, value: Any) -> dict[str, Any]:
    try:
        mapping = storable_object(value) if isinstance(value, str) else value
    except ValueError:
        mapping = None
    if not isinstance(mapping, dict):
        message = f"the column {name} is not a JSON object: {shown(str(value))}"
        raise ValueError(message)  # noqa: TRY004  # one kind of error for one kind of caller
    return mapping


def _csv_text(columns: tuple[str, ...], lines: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        writer.writerow(["" if value is None else value for value in line.values()])
    return declared(len(lines)) + out.getvalue()
