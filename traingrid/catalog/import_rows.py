"""Import: reads rows of the catalog's tables from CSV and JSON Lines files."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Json, TypeAdapter, ValidationError
from sqlalchemy import BigInteger, Date, Double, Integer, Text

from traingrid.catalog.database import upsert
from traingrid.catalog.tables import IMPORTED, JsonText, UtcTime, datasets, replicas
from traingrid.errors import UsageError
from traingrid.text import counted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Column, Connection, Table

    from traingrid.catalog.database import Catalog

_SHOWN_ERRORS = 20
_IMPORT = "import"


def import_file(catalog: Catalog, name: str, file: Path) -> int:
    """Insert the rows of a file into a table, or update those that exist, in one transaction; return their number.

    Args:
        catalog: The catalog.
        name: The table's name, one of `IMPORTED`.
        file: CSV with a header, or JSON Lines if its name ends with `.jsonl`. Its columns are those of the table.

    Raises:
        UsageError: The file is invalid. The error lists the first problems, and nothing is imported.
        TraingridError: The database does not answer.
    """
    table = IMPORTED[name]
    errors: list[str] = []
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    lines: dict[tuple[Any, ...], int] = {}
    for number, values in _lines(file):
        row, wrong = _row(table, values)
        errors += [f"{file}:{number}: {problem}" for problem in wrong]
        key = tuple(row.get(column.name) for column in table.primary_key)
        if not wrong and key in rows:
            errors.append(
                f"{file}:{number}: the same row as line {lines[key]}: {', '.join(map(str, key))}. Remove one."
            )
        rows[key], lines[key] = row, number
    if errors:
        listed = errors[:_SHOWN_ERRORS]
        if len(errors) > len(listed):
            listed.append(f"... and {len(errors) - len(listed)} more")
        raise UsageError("\n".join([f"{file}: nothing was imported.", *listed]), "Correct the lines and import again.")
    if not rows:
        raise UsageError(f"{file} has no rows.", f"Its columns are {', '.join(_writable(table))}.")
    catalog.write(lambda connection: _write(connection, table, list(rows.values())))
    return len(rows)


def imported_sentence(number: int, name: str) -> str:
    """Return the sentence about an import."""
    return f"{counted(number, 'row')} imported into {name}"


def _write(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Write rows, grouped by their columns, because one INSERT has the same columns for all of its rows."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if table in (datasets, replicas):
            row["source"] = _IMPORT
        groups.setdefault(tuple(sorted(row)), []).append(row)
    for group in groups.values():
        upsert(connection, table, group)


def _writable(table: Table) -> dict[str, Column[Any]]:
    """Return the columns that a file may have; `source` of datasets and replicas is set by the import."""
    return {
        column.name: column for column in table.columns if table not in (datasets, replicas) or column.name != "source"
    }


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line numbers and values of a file; empty cells are omitted.

    Raises:
        UsageError: The file is not text, or not in its format.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.", "Write CSV with a header, or JSON Lines (.jsonl).") from None
    if file.suffix == ".jsonl":
        yield from _json_lines(file, text)
        return
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
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
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(f"{file}:{number}: not JSON: {error.msg}.", "Write one object per line.") from None
        if not isinstance(values, dict):
            raise UsageError(f"{file}:{number}: not a JSON object.", "Write one object per line.")
        yield number, {name: value for name, value in values.items() if value is not None}


def _row(table: Table, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the row of a file's values, and the problems."""
    columns, row, problems = _writable(table), {}, []
    for name, value in values.items():
        column = columns.get(name)
        if column is None:
            problems.append(f"{name}: unknown column. The columns are {', '.join(columns)}.")
            continue
        try:
            row[name] = _converted(column, value)
        except ValidationError as error:
            rule = error.errors()[0]["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            problems.append(f"{name} {shown(str(value))}: must be {rule}.")
    for name, column in columns.items():
        if name in values or column.nullable or column.server_default is not None:
            continue
        if name == "training_plan":  # the quota; SageMaker's plans have a name
            row[name] = ""
            continue
        problems.append(f"{name}: required.")
    return row, problems


def _converted(column: Column[Any], value: Any) -> Any:
    """Return a value as its column holds it.

    Raises:
        ValidationError: The column cannot hold it.
    """
    form = next(form for kind, form in _FORMS if isinstance(column.type, kind))
    found = form.validate_python(value)
    return found.replace(tzinfo=UTC) if isinstance(found, datetime) and not found.tzinfo else found


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        message = "a number"
        raise ValueError(message)  # noqa: TRY004  # pydantic reports no TypeError
    return value


def _in_iso_form(value: object) -> object:
    """Refuse the numbers that pydantic reads as seconds since 1970, because a date such as 20261123 is one."""
    if not re.match(r"\d{4}-\d\d-\d\d", str(value)):
        message = "in the form 2026-11-23 or 2026-11-23T12:00:00Z"
        raise ValueError(message)
    return value


def _one_line(value: str) -> str:
    if not value.isprintable():
        message = "one line of text"
        raise ValueError(message)
    return value


_NUMBERS = ConfigDict(coerce_numbers_to_str=True)
_COUNT = Annotated[int, BeforeValidator(_no_boolean), Field(ge=0)]
_NUMBER = Annotated[float, BeforeValidator(_no_boolean), Field(ge=0, allow_inf_nan=False)]
_FORMS: tuple[tuple[type, TypeAdapter[Any]], ...] = (
    (JsonText, TypeAdapter(dict[str, Any] | Json[dict[str, Any]])),
    (UtcTime, TypeAdapter(Annotated[datetime, BeforeValidator(_in_iso_form)])),
    (Date, TypeAdapter(Annotated[date, BeforeValidator(_in_iso_form)])),
    (Double, TypeAdapter(_NUMBER)),
    (BigInteger, TypeAdapter(Annotated[_COUNT, Field(lt=2**63)])),
    (Integer, TypeAdapter(Annotated[_COUNT, Field(lt=2**31)])),
    (Text, TypeAdapter(Annotated[str, AfterValidator(_one_line)], config=_NUMBERS)),
)
"""The form of the values of each type of column; the first type that matches counts."""
