"""Console: help texts, and names that cannot control the terminal."""

import sys
import time
from pathlib import Path

import click
import pytest

from traingrid.api.submit import rejected
from traingrid.cli import console, main
from traingrid.text import counted


def _commands(group: click.Group = main.cli, above: str = "") -> dict[str, click.Command]:
    commands, context = dict[str, click.Command](), click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        commands[f"{above}{name}"] = command
        if isinstance(command, click.Group):
            commands |= _commands(command, f"{above}{name} ")
    return commands


def test_the_summary_of_every_command_fits_its_line() -> None:
    summaries = {name: command.get_short_help_str(45) for name, command in _commands().items()}
    assert {name: text for name, text in summaries.items() if text.endswith("...") or not text} == {}


def test_a_job_keeps_its_name_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    console.console().print("campaign:smile:", markup=False)
    assert capsys.readouterr().out == "campaign:smile:\n"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 Batch jobs"), (1, "1 Batch job"), (2, "2 Batch jobs"), (5000, "5,000 Batch jobs")]
)
def test_a_number_is_printed_with_its_noun(number: int, text: str) -> None:
    assert counted(number, "Batch job") == text


def test_a_file_name_cannot_control_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a\x1b[2J.yaml", "b\x1b[2J.csv"):
        options = ["--grid", str(tmp_path / name), "status"] if name[0] == "a" else ["submit", str(tmp_path / name)]
        monkeypatch.setattr(sys, "argv", ["traingrid", *options])
        with pytest.raises(SystemExit) as ended:
            main.main()
        shown = capsys.readouterr().err
        assert (ended.value.code, "\x1b" in shown, "\\x1b[2J" in shown) == (2, False, True)


def test_an_error_of_a_whole_file_names_the_file_only() -> None:
    of_file = {"line": 0, "field": "file", "value": "", "reason": "the file has no jobs", "next_step": "Write one."}
    of_line = {"line": 3, "field": "region", "value": "'x'", "reason": "it is no Region", "next_step": "Write one."}
    missing = {"line": 4, "field": "region", "value": "", "reason": "a value is required", "next_step": "Write one."}
    error = rejected(Path("x.csv"), {"errors": [of_file, of_line, missing], "errors_in_total": 3})
    assert error.what.splitlines()[1:] == [
        "x.csv: the file has no jobs. Write one.",
        "x.csv:3: region 'x': it is no Region. Write one.",
        "x.csv:4: region: a value is required. Write one.",
    ]
    assert error.next_step == "Fix these lines and submit the file again."


def test_a_long_wait_is_announced_and_a_short_one_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "PATIENCE_SECONDS", 0.05)
    with console.announcing_a_wait("S3"):
        pass
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
    with console.announcing_a_wait("S3"):
        time.sleep(0.5)
    assert capsys.readouterr().err == "No answer from S3 yet; still trying. Ctrl-C stops waiting.\n"
