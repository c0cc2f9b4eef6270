"""Command groups: `traingrid --help` lists each command once, in the group of its work."""

import re
from importlib import import_module
from pkgutil import iter_modules

import click
import pytest
from click.testing import CliRunner

import traingrid.cli
from traingrid.cli.command_groups import GROUPS
from traingrid.cli.main import cli

CONTEXT = click.Context(cli, info_name="traingrid")
COMMANDS = {name: cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)}


def test_the_help_lists_each_command_once_in_its_group() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    sections = re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n?)+)", text, re.MULTILINE)
    listed = {title: re.findall(r"^  ([a-z]+) ", lines, re.MULTILINE) for title, lines in sections}
    assert listed.pop("Options") == []
    assert listed == {group: list(commands) for group, commands in GROUPS.items()}
    assert len(COMMANDS) == sum(map(len, listed.values())), "a command is in two groups"


def test_each_command_of_the_package_has_a_group() -> None:
    modules = [import_module(f"traingrid.cli.{module.name}") for module in iter_modules(traingrid.cli.__path__)]
    defined = {value for module in modules for value in vars(module).values() if isinstance(value, click.Command)}
    members = {
        member for command in defined if isinstance(command, click.Group) for member in command.commands.values()
    }
    assert defined - members - {cli} == set(COMMANDS.values())


@pytest.mark.parametrize("columns", [40, 80])
def test_the_summaries_of_all_groups_begin_in_the_same_column(columns: int) -> None:
    text = CliRunner().invoke(cli, ["--help"], terminal_width=columns).output
    lines = text[text.index("Daily work:") :].splitlines()
    assert {len(match[0]) for line in lines if (match := re.match(r"  [a-z]+ +", line))} == {15}
    assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["statsu"], "No such command 'statsu'. Did you mean `traingrid status`?"),
        (["cancle", "0123abcd"], "No such command 'cancle'. Did you mean `traingrid cancel`?"),
        (["frobnicate"], "No such command 'frobnicate'. `traingrid --help` lists all commands."),
    ],
)
def test_an_unknown_command_is_answered_with_the_nearest_one(words: list[str], sentence: str) -> None:
    result = CliRunner().invoke(cli, words, prog_name="traingrid")
    assert result.exit_code == 2
    assert result.output.endswith(f"\nError: {sentence}\n")


@pytest.mark.parametrize(("words", "name"), [(["status", "--wach"], "--watch"), (["catalog", "snyc"], "sync")])
def test_an_unknown_option_or_subcommand_is_answered_with_the_nearest_one(words: list[str], name: str) -> None:
    result = CliRunner().invoke(cli, words, prog_name="traingrid")
    assert result.exit_code == 2
    assert f"Did you mean '{name}'?" in result.output
