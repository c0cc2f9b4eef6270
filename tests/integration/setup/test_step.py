"""A step of set-up runs once, is repeated after it was killed, and fails with one sentence."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.setup.conftest import ROOT, Checkout

LIMIT = 30
COUNT = ("sh", "-c", "echo run >>runs; echo done >part/file")


class Step:
    """A step in a folder with one input file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stamp = folder, folder / "part/.installed"
        (folder / "part").mkdir()
        (folder / "input").write_text("1")

    def start(self, *command: str) -> "subprocess.Popen[str]":
        """Start the step."""
        return subprocess.Popen(
            [sys.executable, str(ROOT / "setup/step.py"), "part/.installed", "a part", "input", "--", *command],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str) -> tuple[int, str, str]:
        """Run the step, and return its exit status, output and errors."""
        process = self.start(*command)
        output, errors = process.communicate(timeout=LIMIT)
        return process.returncode, output, errors

    @property
    def runs(self) -> int:
        """How often the command has run."""
        return (self.folder / "runs").read_text().count("run")


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


def test_a_step_runs_again_only_after_an_input_has_changed(step: Step) -> None:
    assert step.run(*COUNT)[0] == 0
    assert step.run(*COUNT)[:2] == (0, "")
    assert step.runs == 1
    later = step.stamp.stat().st_mtime + 1
    os.utime(step.folder / "input", (later, later))
    assert step.run(*COUNT)[0] == 0
    assert step.runs == 2


def test_a_step_shows_its_part_before_and_its_time_afterwards(step: Step) -> None:
    _, output, _ = step.run(*COUNT)
    assert output.splitlines()[0] == "a part ..."
    assert output.splitlines()[1].startswith("a part: ")


def test_a_step_that_was_killed_is_repeated(step: Step) -> None:
    process = step.start("sh", "-c", "echo run >>runs; sleep 60")
    deadline = time.monotonic() + LIMIT
    while not (step.folder / "runs").exists():
        assert time.monotonic() < deadline, "the command did not start"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    assert step.run(*COUNT)[0] == 0
    assert step.runs == 2


def test_a_step_that_fails_has_no_stamp_and_names_its_part(step: Step) -> None:
    step.run(*COUNT)
    (step.folder / "input").write_text("2")
    os.utime(step.folder / "input", (time.time() + 5, time.time() + 5))
    status, _, errors = step.run("sh", "-c", "exit 7")
    assert (status, step.stamp.exists()) == (7, False)
    assert errors.startswith("a part: failed with exit status 7.")


def test_of_two_simultaneous_steps_the_second_waits_and_finds_the_part(step: Step) -> None:
    first = step.start("sh", "-c", "echo run >>runs; while ! [ -e continue ]; do sleep 0.05; done")
    deadline = time.monotonic() + LIMIT
    while not (step.folder / "runs").exists():
        assert time.monotonic() < deadline, "the command did not start"
        time.sleep(0.05)
    second = step.start(*COUNT)
    assert second.stdout is not None
    assert second.stdout.readline() == "a part: waiting for the other `make` in this folder ...\n"
    (step.folder / "continue").touch()
    assert [process.communicate(timeout=LIMIT) and process.returncode for process in (first, second)] == [0, 0]
    assert step.runs == 1


def test_a_folder_that_cannot_be_written_is_named_in_one_sentence(step: Step) -> None:
    (step.folder / "build").write_text("a file where set-up needs a folder")
    status, output, errors = step.run(*COUNT)
    assert (status, output) == (1, "")
    assert errors == "a part: build/locks: Not a directory. Repair this, and run `make` again.\n"


def test_uv_is_installed_once_for_every_checkout_of_a_user(checkout: Checkout) -> None:
    checkout.environment["PYTHON"] = str(checkout.program("python3.11", VENV.format(status=0)))
    paths = {checkout.run("setup/uv.sh").stdout for _ in range(2)}
    assert len(paths) == 1
    assert Path(paths.pop().strip()).parent == Path(checkout.environment["XDG_CACHE_HOME"]) / "traingrid"
    assert len(checkout.calls("python3.11")) == 1


def test_uv_that_cannot_be_downloaded_is_one_sentence_and_leaves_nothing(checkout: Checkout) -> None:
    checkout.environment["PYTHON"] = str(checkout.program("python3.11", VENV.format(status=1)))
    ended = checkout.run("setup/uv.sh")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1
    assert "could not be installed: ERROR: No matching distribution found for uv" in ended.stderr
    assert list((Path(checkout.environment["XDG_CACHE_HOME"]) / "traingrid").iterdir()) == []


@pytest.mark.parametrize(
    ("free", "sentence"),
    [
        (9, "The disk is full. Free space for .venv, and run make again."),
        (9_000_000, "uv could not install the packages; the lines above are the reason."),
    ],
)
def test_packages_that_cannot_be_installed_end_in_a_sentence(checkout: Checkout, free: int, sentence: str) -> None:
    checkout.uv('mkdir -p .venv; [ "$1" = venv ]')
    checkout.program("df", f"echo 'Filesystem blocks Used Available'; echo 'none 9000000 0 {free}'")
    ended = checkout.run("setup/environment.sh", ".venv", "requirements.txt")
    assert ended.returncode == 1
    assert ended.stderr.startswith(sentence)


# A Python whose environments have a pip that installs an empty uv, or that reports no network.
VENV = """
mkdir -p "$3/bin"
cat >"$3/bin/pip" <<'END'
#!/bin/sh
echo "ERROR: No matching distribution found for uv" >&2
touch "$(dirname "$0")/uv"
chmod +x "$(dirname "$0")/uv"
exit {status}
END
chmod +x "$3/bin/pip"
"""
