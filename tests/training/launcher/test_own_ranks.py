"""Hosts that start their own ranks: the launchers none and torchrun, the latter with a program in torchrun's place."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.packages import OPEN_MPI, needs

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]
Run = Callable[..., "list[subprocess.Popen[str]]"]

# Starts as many processes as torchrun does, with the same variables, and ends the others when one fails.
TORCHRUN = """
import argparse, os, signal, subprocess, sys, time
parser = argparse.ArgumentParser()
for name in ("nnodes", "nproc_per_node", "node_rank", "master_port"):
    parser.add_argument("--" + name, type=int)
parser.add_argument("--master_addr")
parser.add_argument("--no_python", action="store_true")
parser.add_argument("command", nargs=argparse.REMAINDER)
options = parser.parse_args()
size = options.nnodes * options.nproc_per_node
ranks = []
for local in range(options.nproc_per_node):
    found = dict(RANK=options.node_rank * options.nproc_per_node + local, WORLD_SIZE=size, LOCAL_RANK=local,
                 LOCAL_WORLD_SIZE=options.nproc_per_node, MASTER_ADDR=options.master_addr,
                 MASTER_PORT=options.master_port)
    variables = {name: str(value) for name, value in found.items()}
    ranks.append(subprocess.Popen(options.command, env={**os.environ, **variables}))
def end(*_):
    for rank in ranks:
        rank.terminate()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
while any(rank.poll() is None for rank in ranks):
    if any(rank.poll() for rank in ranks):
        end()
    time.sleep(0.05)
sys.exit(max(rank.returncode != 0 for rank in ranks))
"""
# Records its variables as each rank.
RECORDS = """
import json, os, sys
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SM_CURRENT_HOST", "OMP_NUM_THREADS"]
found = {name: os.environ.get(name) for name in names} | {"argv": sys.argv[1:]}
with open(os.path.join(os.environ["SM_MODEL_DIR"], f"{os.environ.get('RANK', 'only')}.json"), "w") as file:
    json.dump(found, file)
print("loss=0.5 of", os.environ.get("RANK", os.environ["SM_CURRENT_HOST"]))
"""


@pytest.fixture
def run(host_folder: Write, start: Start, tmp_path: Path) -> Run:
    """A function that starts `train` with a script on hosts, whose names are addresses of this machine."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "torchrun.py").write_text(TORCHRUN)
    # A first line with the path of Python would end at a blank in it.
    (programs / "torchrun").write_text(f"#!/bin/sh\nexec '{sys.executable}' '{programs}/torchrun.py' \"$@\"\n")
    (programs / "torchrun").chmod(0o755)

    def started(
        text: str, launcher: Mapping[str, str], hosts: int = 1, program: str = "mine.py", **environment: str
    ) -> "list[subprocess.Popen[str]]":
        packed = tmp_path / "sourcedir.tar.gz"
        with tarfile.open(packed, "w:gz") as archive:
            entry = tarfile.TarInfo(program)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
        named = {"sagemaker_program": program, "sagemaker_submit_directory": str(packed), "epochs": "3"}
        names = [f"127.0.0.{number + 1}" for number in range(hosts)]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1] - 1)
        path = f"{programs}:{os.environ['PATH']}"
        trains = []
        for name in names:
            base = tmp_path / name
            if not base.exists():
                host_folder(base, hosts=names, current_host=name)
                (base / "model").mkdir()
            settings = named | {"sagemaker_mpi_num_of_processes_per_host": "2"} | dict(launcher)
            (base / "input" / "config" / "hyperparameters.json").write_text(json.dumps(settings))
            trains.append(start(base, PATH=path, MASTER_PORT=port, **environment))
        return trains

    return started


NONE = {"sagemaker_launcher": "none"}
MPI = {"sagemaker_mpi_enabled": "true"}
TWO = {"sagemaker_torch_distributed_enabled": "true", "sagemaker_instance_type": "ml.p4d.24xlarge"}


@pytest.fixture(
    params=[NONE, TWO, pytest.param("mpi", marks=needs(OPEN_MPI)), "gloo"], ids=["none", "torchrun", "mpi", "gloo"]
)
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The hyperparameters of each launcher; that of MPI starts its ranks with mpirun, and with Gloo."""
    if isinstance(request.param, str):
        monkeypatch.setenv("HOROVOD_CONTROLLER", request.param)
        return MPI
    return dict(request.param)


def finished(train: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = train.communicate(timeout=60)
    return train.returncode, output


def line_with(text: str, train: "subprocess.Popen[str]") -> str:
    """Wait for a line of the output that contains a text, and return it."""
    assert train.stdout is not None
    lines = [""]
    while text not in lines[-1]:
        lines.append(train.stdout.readline())
        assert lines[-1], "".join(lines)  # else the output has ended
    return lines[-1]


def failure(tmp_path: Path, host: int = 1) -> str:
    return (tmp_path / f"127.0.0.{host}" / "output" / "failure").read_text()


def test_without_a_launcher_each_host_runs_the_program_once_with_its_own_status(run: Run, tmp_path: Path) -> None:
    ends = "import os, sys; sys.exit(3 if os.environ['SM_CURRENT_HOST'].endswith('2') else 0)"
    first, second = run(RECORDS + ends, NONE, hosts=2)
    (status, output), (other_status, other_output) = finished(first), finished(second)
    assert (status, other_status) == (0, 1), output + other_output
    assert "loss=0.5 of 127.0.0.1" in output.splitlines()
    assert "[1,1]<stdout>:loss=0.5 of 127.0.0.2" in other_output.splitlines()
    for host in ("127.0.0.1", "127.0.0.2"):
        found = json.loads((tmp_path / host / "model" / "only.json").read_text())
        assert (found["SM_CURRENT_HOST"], found["MASTER_ADDR"]) == (host, "127.0.0.1")
        assert (found["RANK"], found["OMP_NUM_THREADS"], found["argv"]) == (None, None, ["--epochs", "3"])
    assert failure(tmp_path, 2).startswith("Rank 1 on 127.0.0.2 failed: ScriptError: mine.py ended with exit status 3")


def test_torchrun_starts_the_ranks_of_each_host(run: Run, tmp_path: Path) -> None:
    first, second = run(RECORDS, TWO, hosts=2)
    (status, output), (other_status, other_output) = finished(first), finished(second)
    assert (status, other_status) == (0, 0), output + other_output
    for rank in range(4):
        found = json.loads((tmp_path / f"127.0.0.{rank // 2 + 1}" / "model" / f"{rank}.json").read_text())
        assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == (str(rank), "4", str(rank % 2))
        assert found["MASTER_ADDR"] == "127.0.0.1"
    assert {"loss=0.5 of 0", "[1,1]<stdout>:loss=0.5 of 1"} <= set(output.splitlines())
    assert {"[1,2]<stdout>:loss=0.5 of 2", "[1,3]<stdout>:loss=0.5 of 3"} <= set(other_output.splitlines())


def test_a_host_that_is_missing_is_named_and_no_rank_starts(run: Run, tmp_path: Path) -> None:
    first, second, third = run(RECORDS, TWO | {"sagemaker_host_timeout_seconds": "3"}, hosts=3)
    third.kill()
    for host, train in ((1, first), (2, second)):
        status, output = finished(train)
        assert (status, "loss" in output) == (1, False), output
        assert failure(tmp_path, host).startswith("Host 127.0.0.3 did not report to 127.0.0.1 within 3 s")


def test_a_rank_that_fails_ends_all_hosts_with_its_reason(run: Run, tmp_path: Path) -> None:
    text = "import os, time\nif os.environ['RANK'] == '3':\n    raise KeyError('no such pixel')\ntime.sleep(100)\n"
    started = time.monotonic()
    trains = run(text, TWO, hosts=2)
    tracebacks = 0
    for host, train in enumerate(trains, start=1):
        status, output = finished(train)
        assert status == 1, output
        assert "Rank 3 on 127.0.0.2 failed: KeyError: 'no such pixel'\n" in output
        assert failure(tmp_path, host).startswith("Rank 3 on 127.0.0.2 failed: KeyError: 'no such pixel'\nTraceback")
        tracebacks += output.count("Traceback (most recent call last):")
    assert tracebacks == 1  # `traingrid logs` merges the logs of all hosts
    assert time.monotonic() - started < 40


def test_a_host_that_dies_ends_the_others(run: Run, tmp_path: Path) -> None:
    first, second = run("import time\nprint('running')\ntime.sleep(100)\n", TWO, hosts=2)
    line_with("running", second)
    second.kill()
    assert finished(first)[0] == 1
    assert failure(tmp_path).startswith("Host 127.0.0.2 ended without a report")


@pytest.mark.parametrize("launcher", [NONE, TWO])
def test_a_killed_rank_is_named_with_the_likely_cause(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    text = "import os, signal, time\nif os.environ.get('RANK') == '1':\n    time.sleep(100)\nos.kill(os.getpid(), 9)\n"
    (train,) = run(text, launcher)
    status, output = finished(train)
    assert status == 1, output
    (sentence, *_) = failure(tmp_path).splitlines()
    assert sentence.startswith("Rank 0 on 127.0.0.1 was killed by signal 9 (SIGKILL). Most likely memory ran out")


def test_the_error_text_of_argparse_is_in_the_reason(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    text = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\nparser.parse_args()\n"
    (train,) = run(text, launcher)
    status, output = finished(train)
    assert status == 1, output
    (sentence, *_) = failure(tmp_path).splitlines()
    assert "mine.py ended with exit status 2" in sentence
    assert "mine.py: error: unrecognized arguments: --epochs 3" in sentence


@pytest.mark.parametrize("launcher", [NONE, TWO])
def test_a_stop_request_reaches_the_program_as_a_file(run: Run, launcher: Mapping[str, str]) -> None:
    text = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("running", flush=True)
while not os.path.exists(os.environ["TRAINGRID_STOP_FILE"]):
    time.sleep(0.05)
"""
    (train,) = run(text, launcher)
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    assert finished(train)[0] == 143


def test_a_script_that_continues_after_a_stop_is_ended(run: Run, launcher: Mapping[str, str]) -> None:
    text = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("running", flush=True)
time.sleep(600)
"""
    (train,) = run(text, launcher, TRAINGRID_STOP_SECONDS="1")
    line_with("running", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert (status, "have not ended 1 s after the stop" in output) == (143, True), output


def test_an_image_without_torchrun_is_reported_before_any_rank_starts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "bin" / "torchrun").unlink()
    (train,) = run(RECORDS, TWO)
    status, output = finished(train)
    assert (status, "loss" in output) == (1, False), output
    assert "the image has no torchrun on PATH. Use an image with PyTorch" in failure(tmp_path)


def test_ranks_that_do_not_match_the_job_are_reported_before_the_script_starts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin" / "torchrun.py").write_text(TORCHRUN.replace("size = options", "size = 1 + options"))
    (train,) = run(RECORDS, TWO)
    status, output = finished(train)
    assert (status, "loss" in output) == (1, False), output
    assert "instead of rank" in failure(tmp_path).splitlines()[0]


@pytest.mark.parametrize("launcher", [NONE, TWO])
def test_an_image_that_starts_mpirun_is_reported(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    (train,) = run(RECORDS, launcher, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2")
    status, output = finished(train)
    assert (status, "loss" in output) == (1, False), output
    assert "but mpirun has started `train`, as rank 1 of 2. Write launcher mpi" in failure(tmp_path)


@pytest.mark.parametrize("launcher", [NONE, TWO])
def test_a_training_ends_when_train_is_killed(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    text = "import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(100)\n"
    (train,) = run(text, launcher)
    line = line_with("pid", train)
    train.kill()
    train.wait()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{line.split()[-1]}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("launcher", [NONE, TWO])
def test_horovod_is_not_imported(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("horovod", "tensorflow"):
        (hidden / f"{name}.py").write_text(f"raise ImportError('{name} is not in this image')\n")
    (train,) = run("print('trained')", launcher, PYTHONPATH=str(hidden))
    status, output = finished(train)
    assert (status, "trained" in output) == (0, True), output
