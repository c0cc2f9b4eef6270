"""Import: reads rows of the catalog's tables from CSV and JSON Lines files."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from sqlalchemy import BigInteger, Date, Double, Integer, Text

from traingrid.catalog.batches import upsert
from traingrid.catalog.data_files import lines_of
from traingrid.catalog.tables import IMPORTED, JsonText, UtcTime, datasets, replicas
from traingrid.errors import UsageError
from traingrid.grid.field_types import InstanceType, RegionName
from traingrid.strict_json import storable_object
from traingrid.text import counted, shown

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Column, Connection, Table

    from traingrid.catalog.database import Catalog

_SHOWN_ERRORS = 20
_IMPORT = "import"


def import_file(catalog: Catalog, name: str, file: Path) -> int:
    """Insert the rows of a file into a table, or update those that exist, in one transaction; return their number.

    Args:
        name: The table's name, one of `IMPORTED`.
        file: CSV with a header, or JSON Lines if its name ends with `.jsonl`. It has the columns of the table.

    Raises:
        UsageError: The file is invalid. The error lists the first problems, and nothing is imported.
        TraingridError: The database does not answer.
    """
    rows = rows_of(file, name)
    catalog.write(lambda connection: _write(connection, IMPORTED[name], rows))
    return len(rows)


def rows_of(file: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a file.

    Args:
        file: CSV with a header, or JSON Lines if its name ends with `.jsonl`. It has the columns of the table.
        name: The table's name, one of `IMPORTED`.

    Raises:
        UsageError: The file is invalid. The error lists the first problems.
    """
    table = IMPORTED[name]
    errors: list[str] = []
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    lines: dict[tuple[Any, ...], int] = {}
    for number, values in lines_of(file):
        row, wrong = _row(table, values)
        errors += [f"{file}:{number}: {problem}" for problem in wrong]
        key = tuple(row.get(column.name) for column in table.primary_key)
        if not wrong and key in rows:
            errors.append(
                f"{file}:{number}: the same row as line {lines[key]}: {', '.join(map(str, key))}. Remove one."
            )
        rows[key], lines[key] = row, number
    if errors:
        shown_errors = errors[:_SHOWN_ERRORS]
        if len(errors) > len(shown_errors):
            shown_errors.append(f"... and {len(errors) - len(shown_errors)} more")
        raise UsageError(
            "\n".join([f"{file}: nothing was imported.", *shown_errors]), "Correct the lines and import again."
        )
    if not rows:
        raise UsageError(f"{file} has no rows.", f"Its columns are {', '.join(_writable(table))}.")
    return list(rows.values())


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


def _row(table: Table, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the row of a file's values, and the problems."""
    columns, row, problems = _writable(table), {}, []
    for name, value in values.items():
        column = columns.get(name)
        if column is None:
            problems.append(f"{name}: unknown column. The columns are {', '.join(columns)}.")
            continue
        try:
            row[name] = _convert(column, value)
        except ValidationError as error:
            problems.append(f"{name} {shown(str(value))}: {_rule(error)}.")
    for name, column in columns.items():
        if name in values or column.nullable or column.server_default is not None:
            continue
        if name == "training_plan":  # the quota; SageMaker's plans have a name
            row[name] = ""
            continue
        problems.append(f"{name}: required.")
    return row, problems


def _rule(error: ValidationError) -> str:
    """Return pydantic's rule as the end of a sentence."""
    text = error.errors()[0]["msg"]
    for start in ("Input should ", "String should "):
        if text.startswith(start):
            return f"must {text.removeprefix(start)}"
    return f"must be {text.removeprefix('Value error, ')}"


def _convert(column: Column[Any], value: Any) -> Any:
    """Return a value as its column holds it.

    Raises:
        ValidationError: The column cannot hold it.
    """
    form = _OF_COLUMNS.get(column.name) or next(form for kind, form in _FORMS if isinstance(column.type, kind))
    converted = form.validate_python(value)
    return converted.replace(tzinfo=UTC) if isinstance(converted, datetime) and not converted.tzinfo else converted


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        message = "a number"
        raise ValueError(message)  # noqa: TRY004  # pydantic reports no TypeError
    return value


def _require_iso_form(value: object) -> object:
    """Refuse the numbers that pydantic reads as seconds since 1970, because a date such as 20261123 is one."""
    if not re.match(r"\d{4}-\d\d-\d\d", str(value)):
        message = "in the form 2026-11-23 or 2026-11-23T12:00:00Z"
        raise ValueError(message)
    return value


def _require_modern_time(value: datetime) -> datetime:
    """Refuse years at the ends of the calendar, where a conversion to UTC fails."""
    if not 1970 <= value.year < 9999:
        message = "between 1970 and 9998"
        raise ValueError(message)
    return value


def _mapping(value: object) -> object:
    return storable_object(value if isinstance(value, str) else json.dumps(value))


def _one_line(value: str) -> str:
    if not value.isprintable():
        message = "one line of text"
        raise ValueError(message)
    return value


_NUMBERS = ConfigDict(coerce_numbers_to_str=True)
_COUNT = Annotated[int, BeforeValidator(_no_boolean), Field(ge=0)]
_NUMBER = Annotated[float, BeforeValidator(_no_boolean), Field(ge=0, allow_inf_nan=False)]
_FORMS: tuple[tuple[type, TypeAdapter[Any]], ...] = (
    (JsonText, TypeAdapter(Annotated[dict[str, Any], BeforeValidator(_mapping)])),
    (
        UtcTime,
        TypeAdapter(Annotated[datetime, BeforeValidator(_require_iso_form), AfterValidator(_require_modern_time)]),
    ),
    (Date, TypeAdapter(Annotated[date, BeforeValidator(_require_iso_form)])),
    (Double, TypeAdapter(_NUMBER)),
    (BigInteger, TypeAdapter(Annotated[_COUNT, Field(lt=2**63)])),
    (Integer, TypeAdapter(Annotated[_COUNT, Field(lt=2**31)])),
    (Text, TypeAdapter(Annotated[str, AfterValidator(_one_line)], config=_NUMBERS)),
)
"""The form of the values of each type of column; the first type that matches counts."""
_REGION: TypeAdapter[Any] = TypeAdapter(RegionName)
_OF_COLUMNS: dict[str, TypeAdapter[Any]] = {
    **dict.fromkeys(("region", "from_region", "to_region"), _REGION),
    "instance_type": TypeAdapter(InstanceType),
    "purchase_option": TypeAdapter(Literal["on_demand", "spot"]),
    "state": TypeAdapter(Literal["available", "copying", "missing", "removed"]),
    "uri": TypeAdapter(Annotated[str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]+(/.*)?$")]),
}
"""The form of the values of columns with a smaller set of values."""
