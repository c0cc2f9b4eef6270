"""Live views in a pseudo-terminal: the screen of a person while jobs train."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.terminal import Terminal

PROGRAM = """
import sys, time
from types import SimpleNamespace
from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogLine, LogReader
from traingrid.cli import live_status, main
from traingrid.submission.status import JobStatus, SubmissionStatus
from botocore.exceptions import EndpointConnectionError

class Ledger:
    pause = lambda self: None
    shortages = lambda self: []
    submission = lambda self, submission: SimpleNamespace(jobs=JOBS)

def job(index, state, epoch):
    region = ("us-east-1", "ap-southeast-2", "eu-west-1", "us-west-2")[index % 4]
    return JobStatus(index=index, region=region, name=f"campaign-{index}", state=state, epochs=20, ranks=8,
                     metrics={"epoch": epoch, "loss": 1 / (1 + epoch)}, started_at=int(time.time()) - 60)

turn = 0
def status(self, submission):
    global turn
    turn += 1
    if turn in OUTAGE:
        raise EndpointConnectionError(endpoint_url="https://dynamodb.us-east-1.amazonaws.com")
    states = ["Completed" if turn >= TURNS else "InProgress" if index % 3 else "Completed" for index in range(JOBS)]
    jobs = [job(index, state, min(turn, 20)) for index, state in enumerate(states)]
    return SubmissionStatus(submission=submission, manifest="", batch_job="b", batch_state="", jobs=jobs)

def lines(self, tail=None, *, follow=False):
    for number in range(3):
        time.sleep(0.1)
        yield LogLine(1700000000000 + number, number, "us-east-1", "algo-1", f"\\x1b[2Jepoch={number} \\x07")

live_status._REFRESH_SECONDS = 0.1
ControlPlane.status, LogReader.lines = status, lines
ControlPlane.last_submitted_jobs = lambda self, submission: {}
ControlPlane.of = lambda _grid: ControlPlane(deployment=None, ledger=Ledger(), batch=None, storage=None)
sys.argv = ["traingrid", *sys.argv[1:]]
main.main()
"""

Start = Callable[..., Terminal]


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that runs a command in a terminal."""
    running: list[Terminal] = []

    def run(
        *words: str, jobs: int = 4, turns: int = 9, outage: tuple[int, ...] = (), size: tuple[int, int] = (80, 24)
    ) -> Terminal:
        program = f"TURNS, JOBS, OUTAGE = {turns}, {jobs}, {outage}\n{PROGRAM}"
        running.append(Terminal(["-c", program, *words], *size))
        return running[-1]

    yield run
    for terminal in running:
        terminal.process.kill()
        terminal.process.wait()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_changes_in_place_and_never_wraps(start: Start, columns: int) -> None:
    terminal = start("status", "0123abcd", "--watch", size=(columns, 24))
    terminal.until(lambda text: "3/20" in text)
    shown = terminal.until(lambda text: text.count("5/20") == 4)
    assert shown.count("campaign-") == 4
    assert shown.count("submission 0123abcd") == 1
    assert terminal.ended() == 0
    final = "\n".join(terminal.shown)
    assert final.count("Completed") == 4
    assert final.count("submission 0123abcd") == 1, "the live table is replaced by the last one"
    assert not terminal.screen.cursor.hidden


def test_a_window_that_becomes_narrow_loses_columns_not_jobs(start: Start) -> None:
    terminal = start("status", "0123abcd", "--watch", turns=60, size=(120, 24))
    wide = terminal.until(lambda text: "3/20" in text)
    terminal.resize(40, 24)
    assert "Region" in wide

    def is_narrow(text: str) -> bool:
        """Look at the last table: a table that was drawn while the window changed may leave lines above it."""
        table = text.rpartition("submission")[2]
        return "Region" not in table and len(re.findall(r"campaign-.*/20", table)) == 4

    terminal.until(is_narrow)
    terminal.interrupt()
    terminal.ended()


def test_jobs_that_do_not_fit_are_counted_and_running_ones_come_first(start: Start) -> None:
    terminal = start("status", "0123abcd", "--watch", jobs=60, turns=7, size=(80, 12))
    shown = terminal.until(lambda text: "3/20" in text and "and 52 more: 32 InProgress, 20 Completed" in text)
    assert "Completed" not in "\n".join(line for line in shown.splitlines() if "campaign-" in line)
    assert terminal.ended() == 0
    assert terminal.raw.decode().count("campaign-59 ") == 1, "the last table has every job"


def test_an_outage_is_a_sentence_below_the_table(start: Start) -> None:
    terminal = start("status", "0123abcd", "--watch", outage=(3, 4, 5, 6), turns=9)
    shown = terminal.until(lambda text: "AWS has not answered for" in text)
    assert "2/20" in shown
    assert "still trying" in shown
    assert terminal.ended() == 0
    assert "has not answered" not in "\n".join(terminal.shown)


def test_ctrl_c_leaves_a_usable_terminal(start: Start) -> None:
    terminal = start("status", "0123abcd", "--watch", turns=10_000)
    terminal.until(lambda text: "2/20" in text)
    terminal.interrupt()
    assert terminal.ended() == 130
    assert not terminal.screen.cursor.hidden
    assert "Interrupted. Submitted jobs continue" in "\n".join(terminal.shown)


def test_followed_logs_cannot_control_the_terminal(start: Start) -> None:
    terminal = start("logs", "0123abcd", "--follow")
    assert terminal.ended() == 0
    assert [line for line in terminal.shown if line] == [
        f"[{number} algo-1] \\x1b[2Jepoch={number} \\x07" for number in range(3)
    ]
    colours = {terminal.screen.buffer[line][0].fg for line in range(3)}
    assert len(colours) == 3, "a colour for each job"
