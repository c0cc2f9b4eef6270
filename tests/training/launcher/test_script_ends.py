"""A script's own handlers of SIGTERM, exit functions and open files, with every launcher."""

import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.training.launcher.test_own_ranks import NONE, Run, failure, finished, launcher, line_with, run

__all__ = ["launcher", "run"]  # the fixtures
ENDS_WITHIN_SECONDS = 40.0
"""Far below the time after which `train` ends ranks that continue after a stop."""
# As scripts do that checkpoint on SIGTERM. The last rank ends at once, and the first one takes its time.
SAVES = """
import os, signal, subprocess, sys, time
from pathlib import Path
from trainer import ranks
here = ranks.current()
worker = subprocess.Popen(["sleep", "600"])
def save(number, frame):
    if here.is_main:
        time.sleep(2)
        assert worker.poll() is None, "the signal is for this process, not for those of its data loader"
        Path(os.environ["SM_MODEL_DIR"], "saved").write_text("x")
        worker.kill()
        print("saved", flush=True)
        {end}
    os._exit(143)
signal.signal(signal.SIGTERM, save)
Path(os.environ["SM_MODEL_DIR"], f"runs-{{here.rank}}").touch()
while len(list(Path(os.environ["SM_MODEL_DIR"]).glob("runs-*"))) < here.size:
    time.sleep(0.05)
if here.is_main:
    print("running", flush=True)
time.sleep(600)
"""


def model(tmp_path: Path) -> Path:
    return tmp_path / "127.0.0.1" / "model"


def test_a_script_that_handles_sigterm_can_save_in_time(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    (train,) = run(SAVES.format(end="sys.exit(143)"), launcher)
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    began = time.monotonic()
    status, output = finished(train)
    assert (status, (model(tmp_path) / "saved").exists()) == (143, True), output
    assert time.monotonic() - began < ENDS_WITHIN_SECONDS
    assert not (tmp_path / "127.0.0.1" / "output" / "failure").exists()


def test_an_error_after_a_stop_is_in_the_log_of_a_stopped_job(run: Run, launcher: Mapping[str, str]) -> None:
    (train,) = run(SAVES.format(end="raise OSError('No space left on device')"), launcher)
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output
    assert "OSError: No space left on device" in output
    assert "Rank 0 ended with exit status 1 after the stop." in output


def test_a_script_without_a_handler_ends_at_once(run: Run, launcher: Mapping[str, str]) -> None:
    (train,) = run("import time\nprint('running', flush=True)\ntime.sleep(600)\n", launcher)
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    began = time.monotonic()
    status, output = finished(train)
    assert (status, "have not ended" in output) == (143, False), output
    assert time.monotonic() - began < ENDS_WITHIN_SECONDS


def test_a_script_that_asks_for_a_stop_gets_no_signal(run: Run, launcher: Mapping[str, str]) -> None:
    text = """
import signal, time
from trainer import ranks
signal.signal(signal.SIGTERM, lambda *_: print("got a signal", flush=True))
here = ranks.current()
while not here.stop_requested():
    print("running", flush=True)
    time.sleep(0.2)
time.sleep(2)
"""
    (train,) = run(text, launcher)
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert (status, "got a signal" in output) == (143, False), output


@pytest.mark.parametrize("trap", ["", "trap 'echo trapped > $SM_MODEL_DIR/trapped; exit 143' TERM"])
def test_the_programs_of_a_shell_script_get_the_signal_too(
    run: Run, tmp_path: Path, launcher: Mapping[str, str], trap: str
) -> None:
    text = """#!/bin/bash
%s
python3 - <<'END'
import os, signal, sys, time
from pathlib import Path
def save(number, frame):
    time.sleep(3)
    Path(os.environ["SM_MODEL_DIR"], "saved").write_text("x")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("running", flush=True)
time.sleep(600)
END
"""
    (train,) = run(text % trap, launcher, program="train.sh")
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output
    assert {path.name for path in model(tmp_path).iterdir()} == ({"saved", "trapped"} if trap else {"saved"})


FAILS = """
import atexit, os, sys, threading, time
from pathlib import Path
from trainer import ranks
folder, rank = Path(os.environ["SM_MODEL_DIR"]), ranks.current().rank
text, binary = open(folder / f"metrics-{rank}.csv", "w"), open(folder / f"metrics-{rank}.bin", "wb")
text.write("loss,0.5")
binary.write(b"12345")
own_hook = sys.excepthook
def hook(kind, error, trace):  # as wandb does, which then calls the earlier one
    (folder / f"hook-{rank}").write_text(kind.__name__)
    own_hook(kind, error, trace)
sys.excepthook = hook
atexit.register(lambda: (folder / f"exit-{rank}").write_text("called"))
"""


def test_a_failing_script_writes_its_files_and_calls_its_exit_functions(
    run: Run, tmp_path: Path, launcher: Mapping[str, str]
) -> None:
    # The end of a rank ends the others, perhaps before they have begun.
    last = "\nif rank == ranks.current().size - 1:\n    raise ValueError('bad label')\ntime.sleep(600)\n"
    (train,) = run(FAILS + last, launcher)
    status, output = finished(train)
    assert status == 1, output
    (metrics,) = [path for path in model(tmp_path).glob("metrics-*.csv") if path.read_text()]
    rank = metrics.stem.rpartition("-")[2]
    assert metrics.read_text() == "loss,0.5"
    assert (model(tmp_path) / f"metrics-{rank}.bin").read_bytes() == b"12345"
    assert (model(tmp_path) / f"exit-{rank}").read_text() == "called"
    assert (model(tmp_path) / f"hook-{rank}").read_text() == "ValueError"
    assert "ValueError: bad label" in failure(tmp_path)


def test_a_script_that_ends_with_another_status_does_so_too(run: Run, tmp_path: Path) -> None:
    (train,) = run(FAILS + "sys.exit(3)\n", NONE)
    status, output = finished(train)
    assert status == 1, output
    assert [(model(tmp_path) / name).read_text() for name in ("metrics-0.csv", "exit-0")] == ["loss,0.5", "called"]
    assert "ended with exit status 3" in failure(tmp_path)


def test_a_script_that_has_replaced_its_streams_ends_like_others(run: Run, tmp_path: Path) -> None:
    text = """
import sys
class Tee:
    def write(self, text):
        sys.__stderr__.write(text)
    def flush(self):
        pass
sys.stderr = Tee()
raise ValueError("bad label")
"""
    (train,) = run(text, NONE)
    status, output = finished(train)
    assert status == 1, output
    assert "ValueError: bad label" in failure(tmp_path)


def test_an_exit_function_that_never_ends_does_not_keep_a_failed_script(run: Run, tmp_path: Path) -> None:
    (train,) = run(FAILS + "atexit.register(time.sleep, 600)\nraise ValueError('bad label')\n", NONE)
    status, output = finished(train)
    assert status == 1, output
    assert "ValueError: bad label" in failure(tmp_path)
    assert "Timeout (0:00:10)" in output, "the log has the place"


FAILING_CHECKPOINT = """
import sys, time
from training_container.trainer.checkpoints import background

def write():
    time.sleep(1)
    raise OSError("No space left on device")

background.start(write)
"""


def test_a_checkpoint_that_a_thread_cannot_write_fails_a_script_that_has_ended(
    run: Run, tmp_path: Path, launcher: Mapping[str, str]
) -> None:
    (train,) = run(FAILING_CHECKPOINT, launcher)
    status, output = finished(train)
    assert status == 1, output
    assert "No space left on device" in failure(tmp_path)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("sys.exit()", "OSError: No space left on device"),
        ("sys.exit(3)", "ended with exit status 3"),
        ("{}['cat']", "KeyError: 'cat'"),
    ],
)
def test_the_reason_is_the_scripts_own_error_if_its_last_checkpoint_fails_too(
    run: Run, tmp_path: Path, end: str, reason: str
) -> None:
    (train,) = run(FAILING_CHECKPOINT + end, NONE)
    status, output = finished(train)
    assert (status, "No space left on device The training fails" in output) == (1, True), output
    assert reason in failure(tmp_path).splitlines()[0]
