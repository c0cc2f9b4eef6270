"""A training job ends when its script does, regardless of the script's background processes, output or signals."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.packages import needs

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]
Train = Callable[..., "tuple[subprocess.Popen[str], Path]"]

REPOSITORY = Path(__file__).resolve().parents[3]
# Usually seconds suffice; only a training job that never ends takes this long.
PATIENCE_SECONDS = 90
pytestmark = needs("Linux")  # orphans have an adoptive parent on Linux alone

# A typical daemon: in its own session, without our environment variables, and no longer a child of the rank.
DAEMON = """
import os, signal, subprocess, sys, time
from pathlib import Path
from trainer import ranks

rank = str(ranks.current().rank)
model = Path(os.environ["SM_MODEL_DIR"])
subprocess.run(["sh", "-c", "sleep 600 & echo $!"], env={"PATH": os.environ["PATH"]}, start_new_session=True,
               stdout=open(model / f"started-{rank}", "w"))
daemon = subprocess.Popen(["sh", "-c", "sleep 600 & echo $! >&2; exit"], env={"PATH": os.environ["PATH"]},
                          start_new_session=True, stderr=open(model / f"daemon-{rank}.new", "w"))
daemon.wait()
(model / f"daemon-{rank}.new").rename(model / f"daemon-{rank}")
"""
# The end of a rank ends the other one, perhaps before its daemon starts.
BOTH_DAEMONS_RUN = "\nwhile len(list(model.glob('daemon-?'))) < 2:\n    time.sleep(0.05)\n"


@pytest.fixture
def train(host_folder: Write, start: Start, tmp_path: Path) -> Train:
    """A function that starts a script on two ranks, and returns the training job and its folder."""

    def run(program: str, text: str, **environment: str) -> "tuple[subprocess.Popen[str], Path]":
        source = tmp_path / "source"
        source.mkdir()
        (source / program).write_text(text)
        named = {"sagemaker_program": program, "sagemaker_submit_directory": str(source)}
        base = host_folder(tmp_path / "ml", named)
        (base / "model").mkdir()
        return start(base, **environment), base

    return run


def finished(train: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = train.communicate(timeout=PATIENCE_SECONDS)
    return train.returncode, output


def daemons(base: Path, ranks: int = 2) -> list[int]:
    """Wait for all ranks' daemons. Return the process ids of those that hold the ranks' output open."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found := [int(path.read_text()) for path in base.glob("model/daemon-[0-9]")]) < ranks:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def ends(pid: int, within: float = 10.0) -> bool:
    deadline = time.monotonic() + within
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.usefixtures("controller")
def test_a_daemon_that_holds_the_output_open_ends_with_its_rank(train: Train) -> None:
    job, base = train("mine.py", DAEMON + "print('the script has ended')")
    status, output = finished(job)
    assert status == 0, output
    assert output.count("the script has ended") == 2
    assert re.search(r"Rank [01] has ended; killing 2 process\(es\) that it left running: sleep 600", output)
    assert all(map(ends, daemons(base)))


@pytest.mark.usefixtures("controller")
def test_background_processes_of_a_shell_script_end_with_its_rank(train: Train) -> None:
    job, _ = train("mine.sh", "sleep 600 &\necho $! sleeps\n")
    status, output = finished(job)
    assert status == 0, output
    assert all(ends(int(pid)) for pid in re.findall(r"(\d+) sleeps", output))


@pytest.mark.usefixtures("controller")
def test_a_killed_rank_fails_the_job_and_its_daemon_ends(train: Train) -> None:
    text = DAEMON + BOTH_DAEMONS_RUN + "if rank == '1':\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(600)"
    job, base = train("mine.py", text)
    status, output = finished(job)
    assert status == 1, output
    failure = (base / "output" / "failure").read_text()
    assert failure.startswith("Rank 1 on algo-1 was killed by signal 9 (SIGKILL). Most likely memory ran out"), output
    assert all(map(ends, daemons(base)))


@pytest.mark.usefixtures("controller")
def test_a_rank_that_ignores_signals_ends_when_another_rank_fails(train: Train) -> None:
    text = DAEMON + "\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + BOTH_DAEMONS_RUN
    text += "if rank == '1':\n    raise KeyError('no such pixel')\ntime.sleep(600)"
    job, base = train("mine.py", text)
    status, output = finished(job)
    assert status == 1, output
    assert (base / "output" / "failure").read_text().startswith("Rank 1 on algo-1 failed: KeyError"), output
    assert all(map(ends, daemons(base)))


@pytest.mark.usefixtures("controller")
def test_a_training_ends_when_its_launcher_is_killed(train: Train) -> None:
    job, base = train("mine.py", DAEMON + "time.sleep(600)")
    held = daemons(base)
    launcher = psutil.Process(job.pid).children()[0]
    launcher.kill()
    status, output = finished(job)
    assert status == 1, output
    first, *_ = (base / "output" / "failure").read_text().splitlines()
    assert first.startswith("The program that started the ranks was killed by signal 9 (SIGKILL) without a report.")
    assert all(map(ends, held))


@pytest.mark.usefixtures("controller")
def test_bytes_that_are_not_utf_8_reach_the_log_in_any_locale(train: Train) -> None:
    text = (
        "import os\n"
        "os.write(1, b'caf\\xe9 1\\n')\n"
        "for _ in range(2000):\n    os.write(1, b'x' * 99 + b'\\n')\n"  # more than the capacity of a pipe
        "os.write(1, b'the last line\\n')\n"
    )
    job, _ = train("mine.py", text, PYTHONIOENCODING="latin-1")
    status, output = finished(job)
    assert status == 0, output[:2000]
    assert output.count("caf\N{REPLACEMENT CHARACTER} 1") == 2
    assert output.count("the last line") == 2


KEPT = f"import os, signal, sys, time; sys.path.insert(0, {str(REPOSITORY)!r});"
KEPT += "from training_container.ranks import leftovers; leftovers.keep();"


def kept(code: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", KEPT + code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize(
    ("code", "status"), [("sys.exit(3)", 3), ("pass", 0), ("os.kill(os.getpid(), 9)", -9), ("os.abort()", -6)]
)
def test_a_rank_below_a_keeper_keeps_its_exit_status(code: str, status: int) -> None:
    with kept(code) as rank:
        rank.communicate(timeout=PATIENCE_SECONDS)
    assert rank.returncode == status


def test_a_rank_below_a_keeper_ends_if_its_launcher_ignores_sigchld() -> None:
    ignoring = "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
    run = ignoring + "import os; os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    command = [sys.executable, "-c", run, KEPT + "sys.exit(3)"]
    assert subprocess.run(command, timeout=PATIENCE_SECONDS, check=False).returncode == 3


def test_a_rank_below_a_keeper_gets_each_signal_once() -> None:
    code = (
        "signal.signal(15, lambda *_: print('heard', flush=True)); print('ready', flush=True);time.sleep(1);sys.exit(4)"
    )
    with kept(code) as rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "ready\n"
        os.killpg(rank.pid, signal.SIGTERM)
        output, _ = rank.communicate(timeout=PATIENCE_SECONDS)
    assert (output, rank.returncode) == ("heard\n", 4)


def test_killing_the_process_group_ends_the_rank_and_its_leftovers() -> None:
    code = (
        "import subprocess; left = subprocess.Popen(['sleep', '600'], start_new_session=True, env={});"
        "print(os.getpid(), left.pid, flush=True); time.sleep(600)"
    )
    with kept(code) as rank:
        assert rank.stdout is not None
        pids = [int(pid) for pid in rank.stdout.readline().split()]
        os.killpg(rank.pid, signal.SIGKILL)
        rank.communicate(timeout=PATIENCE_SECONDS)  # the leftover holds the output open
    assert all(map(ends, pids))


def test_a_script_that_signals_its_process_group_does_not_signal_its_keeper() -> None:
    code = "signal.signal(15, lambda *_: print('heard', flush=True)); os.kill(0, 15); sys.exit(5)"
    with kept(code) as rank:
        output, _ = rank.communicate(timeout=PATIENCE_SECONDS)
    assert (output, rank.returncode) == ("heard\n", 5)
