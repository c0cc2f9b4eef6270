"""`traingrid logs`: prints lines with their sources, safe for a terminal, and reports wrong options."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogLine, LogReader
from traingrid.cli.logs import print_lines
from traingrid.cli.main import cli
from traingrid.job.state import JobState
from traingrid.submission.status import JobStatus

LINES = [
    LogLine(1_700_000_000_123, 0, "us-east-1", "algo-1", "epoch=1 loss=0.5"),
    LogLine(1_700_000_001_000, 1, "eu-west-1", "algo-2", "\x1b[2Jepoch=1 loss=0.4"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Commands read `LINES`; returns the arguments of each read."""
    reads: list[dict[str, Any]] = []

    def lines(reader: LogReader, tail: int | None = None, *, follow: bool = False) -> Iterator[LogLine]:
        reads.append({"index": reader.index, "since": reader.since > 0, "tail": tail, "follow": follow})
        return iter(LINES)

    nothing: Any = None
    found = ControlPlane(deployment=nothing, ledger=nothing, batch=nothing, storage=nothing)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: found)
    monkeypatch.setattr(LogReader, "lines", lines)
    return reads


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["logs", *arguments])
    return result.exit_code, result.output


def test_lines_name_their_job_and_host(plane: list[dict[str, Any]]) -> None:
    assert run("0123abcd") == (0, "[0 algo-1] epoch=1 loss=0.5\n[1 algo-2] \\x1b[2Jepoch=1 loss=0.4\n")
    assert run("0123abcd", "1")[1].startswith("[algo-1] ")
    assert [read["index"] for read in plane] == [None, 1]


def test_times_are_printed_on_request(plane: list[dict[str, Any]]) -> None:
    assert run("0123abcd", "--timestamps")[1].startswith("2023-11-14T22:13:20.123Z [0 algo-1] epoch")


def test_options_select_lines(plane: list[dict[str, Any]]) -> None:
    assert run("0123abcd", "--tail", "1", "--since", "10m", "-f")[0] == 0
    assert run("0123abcd", "--grep", "loss=0.[4]", "--tail", "1") == (0, "[1 algo-2] \\x1b[2Jepoch=1 loss=0.4\n")
    assert plane == [
        {"index": None, "since": True, "tail": 1, "follow": True},
        {"index": None, "since": False, "tail": None, "follow": False},
    ], "the last matching line may be anywhere"


def test_rows_for_programs_have_the_time_the_host_and_the_rank(plane: list[dict[str, Any]]) -> None:
    first, second = json.loads(run("0123abcd", "--output", "json")[1])
    assert first["time"] == "2023-11-14T22:13:20.123Z"
    assert (first["index"], first["host"], first["rank"]) == (0, "algo-1", 0)
    assert second["text"] == "\x1b[2Jepoch=1 loss=0.4"


def test_lines_of_one_rank_are_printed(plane: list[dict[str, Any]]) -> None:
    assert run("0123abcd", "--rank", "1") == (0, "")
    assert len(run("0123abcd", "--rank", "0", "--tail", "9")[1].splitlines()) == 2
    assert plane[-1]["tail"] is None, "the last lines of the rank may be anywhere"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--since", "soon"), "'soon' is not a duration. Write 30s, 10m, 2h or 1d."),
        (("--grep", "("), "'(' is not a regular expression"),
        (("--tail", "-1"), "-1 is not in the range"),
    ],
)
def test_a_wrong_option_is_reported(plane: list[dict[str, Any]], arguments: tuple[str, ...], text: str) -> None:
    code, output = run("0123abcd", *arguments)
    assert (code, plane) == (2, [])
    assert text in output


def test_jobs_without_a_log_are_an_error_with_the_state(
    plane: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogReader, "lines", lambda *_, **__: iter([]))
    waiting = JobStatus(index=0, region="us-east-1", name="x", state=JobState.WAITING, reason="The quota is used up.")
    monkeypatch.setattr(LogReader, "jobs", lambda _: [waiting])
    result = CliRunner().invoke(cli, ["logs", "0123abcd"])
    assert str(result.exception).startswith("Job 0 has no training job yet: Waiting. The quota is used up.")


def test_a_terminal_gets_a_colour_for_each_job_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for expected, environment in ((2, {}), (0, {"NO_COLOR": "1"})):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdout", terminal := Terminal())
        assert print_lines(iter(LINES), is_one_job=False, timestamps=False) == 2
        assert terminal.getvalue().count("\x1b[3") == expected
        assert "\\x1b[2J" in terminal.getvalue(), "a training must not control the terminal"


def test_a_closed_pipe_ends_the_command_silently() -> None:
    program = "import click\nfrom traingrid.cli import main\n"
    program += "main.cli.add_command(click.Command('many', callback=lambda: [print('x' * 999) for _ in range(9999)]))\n"
    program += "main.main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "many"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdout
        assert command.stderr
        command.stdout.readline()
        command.stdout.close()
        assert (command.stderr.read(), command.wait(timeout=120)) == (b"", 1)
