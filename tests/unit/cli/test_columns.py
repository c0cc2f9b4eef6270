"""Columns: one list of columns is a table, JSON and CSV."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import click
import pytest
from rich.console import Console

from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import OutputOption, write_rows
from traingrid.cli.fitted_table import fitted_table
from traingrid.cli.folded_table import folded_table
from traingrid.cli.main import cli

TYPES = "string|integer|number|boolean|array|object"
SCHEMA: Schema[Any] = Schema(
    "job",
    Column("name", "string: The name.", heading="job", rank=1),
    Column("dollars", "number: The cost.", lambda job: f"{job.dollars:.2f}", heading="$", right=True, rank=2),
    Column("phase", "string: Only in JSON and CSV."),
    Column(help="string: Only in the table.", render=lambda job: job.name.upper(), heading="upper", rank=3),
    Column("length", "integer: The length of the name.", value=lambda job: len(job.name)),
)
JOB = SimpleNamespace(name="[b]\x1b", dollars=1.5, phase=None)


def printed(table: Any, width: int = 80) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_table_has_the_columns_with_a_heading() -> None:
    expected = ["job         $  upper", "[b]\\x1b  1.50  [B]\\x1b"]
    assert printed(folded_table(SCHEMA.columns, [JOB])) == expected
    assert printed(fitted_table("", SCHEMA.columns, [JOB], 80, min_columns=1)) == expected


def test_csv_has_the_columns_with_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([JOB], SCHEMA, "csv")
    assert capsys.readouterr().out == "name,dollars,phase,length\n[b]\\x1b,1.5,,4\n"


def test_a_value_is_an_item_or_an_attribute() -> None:
    assert SCHEMA.of(JOB) == {"name": "[b]\x1b", "dollars": 1.5, "phase": None, "length": 4}
    assert Column[Any]("phase").of({"phase": 3}) == 3
    assert Column[Any]("phase").text({"phase": None}) == ""


@pytest.mark.parametrize(("fit", "cell"), [("fold", ["abcde", "fghij"]), ("ellipsis", ["abcd…"]), ("whole", ["abcd…"])])
def test_a_long_cell_is_folded_or_ends_with_an_ellipsis(fit: Any, cell: list[str]) -> None:
    assert printed(folded_table([Column("x", heading="x", fit=fit)], [{"x": "abcdefghij"}]), width=5) == ["x", *cell]


def test_rows_are_printed_as_a_table_if_columns_have_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([JOB], SCHEMA, "table")
    assert capsys.readouterr().out.split() == ["job", "$", "upper", "[b]\\x1b", "1.50", "[B]\\x1b"]
    write_rows([JOB], Schema("job", Column[Any]("name", "string: The name.")), "table")
    assert capsys.readouterr().out == ""


def commands(command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name) or command)
    else:
        yield command


def test_columns_of_commands_have_a_key_or_a_heading_and_a_type() -> None:
    options = [option for command in commands(cli) for option in command.params if isinstance(option, OutputOption)]
    assert len(options) > 30
    for schema in {schema for option in options for schema in option.schemas}:
        assert len(schema.names) == len(set(schema.names))
        for column in schema.columns:
            assert column.name or (column.heading and column.render), f"a column of each {schema.row}"
            assert re.match(f"({TYPES})( of ({TYPES}|value)s)?: .", column.help), f"{column.name}: {column.help}"
