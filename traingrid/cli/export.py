"""Exports: writes the rows of a command as JSON, or as CSV that a spreadsheet opens without evaluating formulas."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeAlias

import click

from traingrid.cli.columns import Row, Schema
from traingrid.text import escaped_cell

Output: TypeAlias = Literal["table", "json", "csv"]


class OutputOption(click.Option):
    """The option `--output`.

    Attributes:
        schemas: The rows that the command writes; several if they depend on its arguments.
    """

    schemas: tuple[Schema[Any], ...] = ()


def output_option(*schemas: Schema[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that adds --output to a command."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        choice = click.Choice(["table", "json", "csv"])
        option = click.option(
            "--output", cls=OutputOption, type=choice, default="table", show_default=True, help="Format."
        )
        decorated = option(command)
        decorated.__click_params__[-1].schemas = schemas  # type: ignore[attr-defined]  # click's list of the options so far
        return decorated

    return add


def sentence_printer(output: Output) -> Callable[[str], None]:
    """Return the function that prints sentences: on standard error if rows are printed on standard output."""
    return partial(click.echo, err=output != "table")


def write_rows(rows: Iterable[Row], schema: Schema[Row], output: Output, *, at_once: bool = False) -> None:
    """Write rows to standard output, as a table only if columns have a heading.

    JSON is an array with an object for each row. In CSV, a list is one cell, and each entry of a mapping is a column,
    for example `metrics.loss`; a cell is never a formula, and None is an empty cell.

    Args:
        rows: The rows. Values of columns are strings, numbers, Booleans, dates, None, or lists, mappings and
            dataclasses of these.
        at_once: Whether a reader of JSON gets each row as soon as it is known.
    """
    values = map(schema.of, rows)
    if output == "table":
        if schema.has_table:
            from traingrid.cli.console import console  # noqa: PLC0415  # its import takes 0.03 s
            from traingrid.cli.folded_table import folded_table  # noqa: PLC0415  # as above

            console().print(folded_table(schema.columns, rows))
    elif output == "json":
        _write_json(values, at_once=at_once)
    elif any(column.help.startswith("object") for column in schema.columns):
        flat = [dict(_cells(row)) for row in values]
        columns = dict.fromkeys(name for row in flat for name in row) or schema.names
        _write_csv(list(columns), ([row.get(name) for name in columns] for row in flat))
    else:
        _write_csv(schema.names, (list(dict(_cells(row)).values()) for row in values))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], output: Output) -> None:
    """Write rows with columns that are only known now, for example those of a query, to standard output."""
    if output == "json":
        _write_json(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        _write_csv(columns, rows)


def _write_json(rows: Iterable[Mapping[str, Any]], *, at_once: bool = False) -> None:
    """Write an array with one row per line, so that a large one can be read line by line."""
    out, separator = sys.stdout, "["
    try:
        for row in rows:
            out.write(separator + json.dumps(row, default=_json_value, allow_nan=False))
            if at_once:
                out.flush()
            separator = ",\n "
    finally:  # the array is complete if the rows end with an error
        out.write("[]\n" if separator == "[" else "]\n")


def _json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):  # or a datetime
        return value.isoformat()
    return str(value)


def _cells(row: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if is_dataclass(value) and not isinstance(value, type):
            yield from _entries(name, asdict(value))
        elif isinstance(value, Mapping):
            yield from _entries(name, value)
        elif isinstance(value, (list, tuple)):
            yield name, ", ".join(map(_text, value))
        else:
            yield name, str(value).lower() if isinstance(value, bool) else value


def _entries(name: str, value: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for entry in sorted(value):
        yield from _cells({f"{name}.{entry}": value[entry]})


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=_json_value)


def _write_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([escaped_cell(name) for name in columns])
    for row in rows:
        writer.writerow([escaped_cell(cell) if isinstance(cell, str) else cell for cell in row])
