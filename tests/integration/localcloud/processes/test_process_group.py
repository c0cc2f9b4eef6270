"""Processes end with the localcloud that started them."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.processes.process_group import ProcessGroup
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.localcloud.batch.test_batch import Batch
from tests.integration.localcloud.compute import runs, wait_until
from tests.integration.localcloud.training_side import SageMaker
from tests.support.packages import needs

# A program that ignores SIGTERM and leaves a daemon behind, in another session and without our variables.
STUBBORN = (
    "import os, signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN);"
    "child = subprocess.Popen(['sleep', '60'], start_new_session=True, env={});"
    "print(os.getpid(), child.pid, flush=True); time.sleep(60)"
)
needs_proc = needs("Linux")  # daemons of other sessions are found in /proc


def test_output_arrives_by_line_and_the_exit_code_is_a_containers() -> None:
    lines: list[str] = []
    code = "import os; print('a', flush=True); os.write(2, b'b\\xff'); os.kill(os.getpid(), 9)"
    group = ProcessGroup([sys.executable, "-c", code], environment={}, working_directory="/", on_line=lines.append)
    assert group.wait() == 137
    assert lines == ["a", "b\N{REPLACEMENT CHARACTER}"]


@needs_proc
def test_the_end_of_a_program_ends_its_remaining_processes() -> None:
    lines: list[str] = []
    code = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True, env={}).pid, flush=True)"
    environment = {"PATH": os.environ["PATH"]}
    group = ProcessGroup(
        [sys.executable, "-c", code], environment=environment, working_directory="/", on_line=lines.append
    )
    assert group.wait() == 0
    assert not runs(int(lines[0]))


@needs_proc
def test_a_program_gets_its_environment_and_signals_unchanged() -> None:
    lines: list[str] = []
    code = "import os, signal; print(open('/proc/self/environ').read().split('\\0'), os.read(0, 1))"
    code += "; print([line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))])"
    command = ["/bin/sh", "-c", f'exec {sys.executable} -c "$0"', code]
    group = ProcessGroup(command, environment={"A": "b c=d"}, working_directory="/", on_line=lines.append)
    assert group.wait(120) == 0
    assert "'A=b c=d'" in lines[0]
    assert "LC_CTYPE" not in lines[0]
    assert lines[0].endswith("b''")
    blocked = int(lines[1].partition("SigBlk:\\t")[2][:16], 16)
    ignored = int(lines[1].partition("SigIgn:\\t")[2][:16], 16)
    # Signals that this process inherited as ignored remain ignored (a shell's background process: SIGINT and SIGQUIT;
    # some container runtimes: signal 32, which glibc reserves). The reporting Python ignores the other two.
    inherited = int(Path("/proc/self/status").read_text().partition("SigIgn:\t")[2][:16], 16)
    expected = inherited | 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    assert (blocked, ignored & ~expected) == (0, 0)


@pytest.mark.parametrize("command", ["/no-such-program", "no-such-program"])
def test_a_program_that_cannot_start_raises_an_error(command: str) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        ProcessGroup([command], environment={}, working_directory="/", on_line=print)


@needs_proc
def test_stopping_the_server_ends_all_batch_and_training_jobs(tmp_path: Path) -> None:
    with LocalCloud(Settings(data_dir=tmp_path, training_stop_grace_seconds=60, batch_stop_grace_seconds=60)) as cloud:
        session: Any = boto3.Session(aws_access_key_id=DUMMY_KEY, aws_secret_access_key=cloud.secret)

        def client(service: str, region: str = "us-east-1") -> object:
            return session.client(service, region_name=region, endpoint_url=cloud.endpoint_url)

        batch, sagemaker = Batch(client, 1), SageMaker(client)
        job_id = batch.submit(batch.define(STUBBORN))
        name = sagemaker.waiting(STUBBORN)
        batch.reached(job_id, "RUNNING")
        lines = wait_until(lambda: batch.lines(batch.job(job_id))) + sagemaker.lines(sagemaker.job(name))
        pids = [int(pid) for line in lines for pid in line.split()]
        assert len([pid for pid in pids if runs(pid)]) == 4
    assert [pid for pid in pids if runs(pid)] == []


@needs_proc
def test_a_killed_server_leaves_no_processes() -> None:
    server = (
        "import os, sys, time; from localcloud.processes.process_group import ProcessGroup;"
        f"ProcessGroup([sys.executable, '-c', {STUBBORN!r}], environment=dict(os.environ), working_directory='/',"
        "on_line=lambda line: print(line, flush=True)); time.sleep(60)"
    )
    root = Path(__file__).parents[4]
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert [runs(pid) for pid in pids] == [True, True]
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(runs(pid) for pid in pids))


def test_a_program_that_is_killed_before_it_runs_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = tmp_path / "killed.py"
    killed.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr("localcloud.processes.program._SUBREAPER", killed)
    group = ProcessGroup(["true"], environment={}, working_directory=tmp_path, on_line=print)
    assert group.wait(120) == 128 + signal.SIGKILL
