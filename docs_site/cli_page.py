"""Reference of the command: writes docs/cli.md from the definitions of the commands and of their rows.

python -m docs_site.cli_page
"""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import OutputOption
from traingrid.cli.main import cli

PAGE = Path(__file__).resolve().parent.parent / "docs/cli.md"
_HEAD = """\
# Reference of the command

All commands with their arguments and options, and the keys of the rows that they write for programs.
[commands.md](commands.md) is an overview, with exit codes and completion. `make cli-page` writes this page from the
definitions of the commands.

With `--output json`, a command writes an array with an object for each row, and one row on each line; with
`--output csv`, the same keys are columns, and each entry of an object is a separate column, for example
`metrics.loss`. A missing value is `null`, or an empty cell. Messages are then on standard error. Later versions may add
keys, but do not rename or remove them. Commands without `--output` start a program or write a file. A row without a
heading is not in the table that a command prints, and one without a key is only there.
"""


def page() -> str:
    """Return the text of docs/cli.md."""
    context = click.Context(cli, info_name="traingrid")
    parts = [_HEAD, "## traingrid\n", _options(cli, context)]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None  # noqa: S101  # for the type checker: the name is listed
        parts += _command(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the sections of a command and of its subcommands."""
    yield f"## {context.command_path}\n"
    yield cleandoc(command.help or "") + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            member = command.commands[name]
            yield from _command(member, click.Context(member, info_name=name, parent=context))
        return
    yield "    " + " ".join([context.command_path, *command.collect_usage_pieces(context)]) + "\n"
    yield _options(command, context)
    for option in command.params:
        if isinstance(option, OutputOption):
            yield from map(_rows, option.schemas)


def _options(command: click.Command, context: click.Context) -> str:
    """Return the table of a command's options; empty if it has none."""
    records = (option.get_help_record(context) for option in command.params if isinstance(option, click.Option))
    rows = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in filter(None, records)]
    return "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n" if rows else ""


def _rows(schema: Schema[Any]) -> str:
    """Return the table of the columns of rows, with their headings if the command prints a table."""
    if not schema.columns:
        return f"A row for each {schema.row}.\n"
    lines = [("key", "heading", "type", "meaning"), *map(_line, schema.columns)]
    if not schema.has_table:
        lines = [(key, *cells) for key, _, *cells in lines]
    title, *rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"A row for each {schema.row}:\n", title, "|---" * len(lines[0]) + "|", *rows]) + "\n"


def _line(column: Column[Any]) -> tuple[str, ...]:
    """Return the cells of a column."""
    kind, _, meaning = column.help.partition(": ")
    return f"`{column.name}`" if column.name else "", _cell(column.heading), kind, _cell(meaning)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
