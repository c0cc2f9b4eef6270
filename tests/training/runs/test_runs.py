"""Real ranks in two processes on this machine. Each test starts `train` itself."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import tensorflow as tf

from tests.support.packages import OPEN_MPI, needs
from tests.training.conftest import TINY

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]

# `train` reports failures within seconds; only a hang takes this long.
PATIENCE_SECONDS = 300


def finished(train: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = train.communicate(timeout=PATIENCE_SECONDS)
    return train.returncode, output


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def metrics(output: str, name: str) -> list[float]:
    """Extract a metric as SageMaker does, with the regular expression of its definition."""
    return [float(value) for value in re.findall(rf"\b{name}=([-+0-9.eE]+)", output)]


def assert_trained_on_two_ranks(base: Path, output: str) -> None:
    assert metrics(output, "epoch") == [1.0]
    assert metrics(output, "ranks") == [2.0]
    for name in ("train_loss", "validation_loss", "validation_top1", "images_per_second", "learning_rate"):
        assert len(metrics(output, name)) == 1, name
    report = json.loads((base / "model" / "report.json").read_text())
    assert (report["ranks"], report["classes"], report["image_size"]) == (2, 10, 8)
    assert report["top1"] == pytest.approx(metrics(output, "validation_top1")[0], abs=1e-5)
    assert [path.name for path in (base / "checkpoints").glob("checkpoint-*")] == ["checkpoint-000001-step-000000002"]
    assert list((base / "output" / "tensorboard").iterdir())
    assert not (base / "output" / "failure").exists()


@needs(OPEN_MPI)
def test_mpirun_trains_two_ranks_with_the_grids_default_options(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    base = host_folder(tmp_path / "ml")
    status, output = finished(start(base))
    assert status == 0, output
    assert output.startswith("mpirun ")
    assert_trained_on_two_ranks(base, output)
    model = tf.saved_model.load(str(base / "model" / "1"))
    answer = model.signatures["serving_default"](images=tf.zeros([3, 28, 20, 3]))
    assert answer["probabilities"].shape == (3, 10)
    assert tf.reduce_sum(answer["probabilities"]).numpy() == pytest.approx(3.0, rel=1e-5)


def test_gloo_trains_two_ranks_without_mpirun(host_folder: Write, start: Start, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "env", "dirname", "readlink"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    base = host_folder(tmp_path / "ml")
    status, output = finished(start(base, PATH=str(programs)))
    assert status == 0, output
    command, *lines = output.splitlines()
    assert "training_container.launcher.gloo" in command
    assert len(command) < 400, "the names of variables are not in the log"
    assert not [line for line in lines if "stalled ranks" in line]
    assert_trained_on_two_ranks(base, output)


@pytest.mark.usefixtures("controller")
def test_a_failed_rank_fails_the_job_with_its_traceback(host_folder: Write, start: Start, tmp_path: Path) -> None:
    """Each rank reads one of two files. TensorFlow's CRC detects a flipped bit, on one rank only."""
    base = host_folder(tmp_path / "ml")
    train = base / "input" / "data" / "train"
    files = sorted(train.resolve().iterdir())[:2]
    train.unlink()
    train.mkdir()
    for path in files:
        shutil.copy(path, train)
    content = bytearray(files[1].read_bytes())
    content[60] ^= 1
    (train / files[1].name).write_bytes(content)
    status, output = finished(start(base))
    failure = (base / "output" / "failure").read_text()
    assert status == 1
    sentence = (
        rf"Rank [01] on algo-1 failed: RecordError: Channel train: the record at byte 0 of {files[1].name} is corrupt"
    )
    assert re.match(sentence, failure), output
    assert "Traceback" in failure or failure.splitlines()[1].startswith("...")
    assert len(failure) <= 1024
    assert not list((base / "model").glob("*"))


@needs(OPEN_MPI)
def test_the_ranks_are_counted_before_the_first_step(host_folder: Write, start: Start, tmp_path: Path) -> None:
    base = host_folder(tmp_path / "ml", options="-np 1")
    status, output = finished(start(base))
    assert status == 1
    assert "Counted 1 rank(s) instead of 2: 1 host(s) x 2 process(es)" in (base / "output" / "failure").read_text()
    assert not metrics(output, "epoch")


def test_an_invalid_hyperparameter_fails_before_any_rank_starts(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    base = host_folder(tmp_path / "ml", TINY | {"epocs": "3"})
    status, output = finished(start(base))
    assert status == 1
    failure = (base / "output" / "failure").read_text()
    assert failure == "Hyperparameter 'epocs' is unknown. Did you mean 'epochs'?", "SageMaker appends the exit code"
    assert output == f"{failure}\n"


def test_a_missing_train_channel_is_reported(host_folder: Write, start: Start, tmp_path: Path) -> None:
    base = host_folder(tmp_path / "ml")
    (base / "input" / "config" / "inputdataconfig.json").write_text('{"training": {}}')
    assert finished(start(base))[0] == 1
    assert "no channel 'train' (its channels: training)" in (base / "output" / "failure").read_text()


@pytest.mark.usefixtures("controller")
def test_numbers_that_are_not_finite_stop_all_ranks_with_a_report(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    """At this rate, weight decay multiplies the weights by -99 in every step, until they exceed float32."""
    diverging = {"learning_rate": "100", "weight_decay": "1", "momentum": "0", "epochs": "1000", "precision": "float32"}
    unseen = {"validation_every": "1000"}  # otherwise the validation loss would be the first that is not finite
    base = host_folder(tmp_path / "ml", TINY | diverging | unseen)
    status, output = finished(start(base))
    assert status == 1
    failure = (base / "output" / "failure").read_text()
    what = r"(?:The loss is \S+ in|A weight is not finite after)"  # depending on which happens first
    found = re.search(rf"DivergedError: {what} step (\d+) \(epoch (\d+)\): training diverged", failure)
    assert found, output
    step, epoch = int(found[1]), int(found[2])
    assert epoch == (step + 1) // 2
    assert f"The last good checkpoint is of step {2 * (epoch - 1)}." in failure
    assert {step_of(path) for path in (base / "checkpoints").glob("checkpoint-*")} >= {2 * (epoch - 1)}


def rank_processes(train: "subprocess.Popen[str]") -> list[psutil.Process]:
    descendants = psutil.Process(train.pid).children(recursive=True)
    program = ["-u", "-m", "training_container.ranks.trainer_rank"]
    return [process for process in descendants if process.cmdline()[1:] == program]


def follow_to(train: "subprocess.Popen[str]", text: str) -> str:
    """Read the output until a line contains `text`."""
    assert train.stdout is not None
    read = ""
    for line in train.stdout:
        read += line
        if text in line:
            return read
    raise AssertionError(f"{text!r} never came: {read}")


def test_a_rank_that_dies_fails_the_job(host_folder: Write, start: Start, tmp_path: Path, controller: str) -> None:
    base = host_folder(tmp_path / "ml", TINY | {"epochs": "100000"})
    train = start(base)
    follow_to(train, "epoch=2 ")
    killed = next(rank for rank in rank_processes(train) if rank.environ().get(RANK_VARIABLE[controller]) == "1")
    killed.kill()
    status, output = finished(train)
    assert status == 1
    failure = (base / "output" / "failure").read_text()
    assert failure.startswith("Rank 1 on algo-1 was killed by signal 9 (SIGKILL)."), output


RANK_VARIABLE = {"mpi": "OMPI_COMM_WORLD_RANK", "gloo": "HOROVOD_RANK"}


@pytest.mark.usefixtures("controller")
def test_a_stop_checkpoints_and_the_next_start_continues(host_folder: Write, start: Start, tmp_path: Path) -> None:
    base = host_folder(tmp_path / "ml", TINY | {"epochs": "100000", "checkpoint_every": "100000"})
    train = start(base)
    follow_to(train, "epoch=2 ")
    os.killpg(train.pid, signal.SIGTERM)  # to the whole process group, like a terminal or a supervisor
    status, output = finished(train)
    assert status == 143, output
    step = step_of(max((base / "checkpoints").glob("checkpoint-*")))
    assert step >= 4
    assert f"Stopped after step {step}; the checkpoint is written." in output
    path = base / "input" / "config" / "hyperparameters.json"
    epochs = step // 2 + 1
    path.write_text(json.dumps(json.loads(path.read_text()) | {"epochs": str(epochs)}))
    status, output = finished(start(base))
    assert status == 0, output
    assert f"Continuing after step {step}, in epoch" in output
    assert metrics(output, "epoch")[-1] == float(epochs)
    assert len(metrics(output, "epoch")) <= 2  # a stop after an epoch's last step leaves the end of that epoch


@pytest.mark.usefixtures("controller")
def test_ranks_end_when_train_is_killed(host_folder: Write, start: Start, tmp_path: Path) -> None:
    train = start(host_folder(tmp_path / "ml", TINY | {"epochs": "100000"}))
    follow_to(train, "epoch=1 ")
    ranks = rank_processes(train)
    assert len(ranks) == 2
    train.kill()
    _, alive = psutil.wait_procs(ranks, timeout=30)
    assert not alive


SSH = """#!/bin/sh
# Runs a command 'on a host': in an environment that knows that host's folder and nothing of the caller's.
while :; do
    case $1 in
    -o) shift 2 ;;
    -*) shift ;; # Open MPI adds -x: no X11
    *) break ;;
    esac
done
host=$1
shift
[ -e "{hosts}/$host/sshd" ] || exit 255
exec env -i PATH="{path}" HOME=/tmp SAGEMAKER_BASE_DIR="{hosts}/$host" sh -c "$*"
"""
SSHD = """#!/bin/sh
sleep 1
touch "$SAGEMAKER_BASE_DIR/sshd"
trap 'touch "$SAGEMAKER_BASE_DIR/sshd-ended"; exit 0' TERM
while :; do sleep 0.2; done
"""


@pytest.fixture
def start_two_hosts(host_folder: Write, start: Start, tmp_path: Path) -> Callable[..., "list[subprocess.Popen[str]]"]:
    """A function that starts `train` on algo-1 and algo-2, with a fake ssh that connects the two."""
    programs, hosts = tmp_path / "bin", tmp_path / "hosts"
    programs.mkdir()
    for name, text in (("ssh", SSH), ("sshd", SSHD)):
        (programs / name).write_text(text.format(hosts=hosts, path=os.environ["PATH"]))
        (programs / name).chmod(0o755)

    def run(hyperparameters: dict[str, str], **environment: str) -> "list[subprocess.Popen[str]]":
        names = ("algo-1", "algo-2")
        bases = [
            host_folder(hosts / name, hyperparameters, processes=1, hosts=names, current_host=name) for name in names
        ]
        return [start(base, PATH=f"{programs}:{os.environ['PATH']}", **environment) for base in bases]

    return run


@pytest.mark.usefixtures("controller")
def test_two_hosts_train_as_one(start_two_hosts: Callable[..., "list[subprocess.Popen[str]]"], tmp_path: Path) -> None:
    main, other = start_two_hosts(TINY)
    status, output = finished(main)
    assert (status, finished(other)[0]) == (0, 0), output
    assert_trained_on_two_ranks(tmp_path / "hosts" / "algo-1", output)
    assert (tmp_path / "hosts" / "algo-2" / "sshd-ended").exists()
    assert not (tmp_path / "hosts" / "algo-2" / "model").exists()


@pytest.mark.usefixtures("controller")
def test_two_hosts_fail_as_one_and_both_have_the_reason(
    start_two_hosts: Callable[..., "list[subprocess.Popen[str]]"], tmp_path: Path
) -> None:
    main, other = start_two_hosts(TINY | {"first_label": "1"})
    status, output = finished(main)
    assert (status, finished(other)[0]) == (1, 1), output
    for host in ("algo-1", "algo-2"):
        assert "a label must be from 1 to 10" in (tmp_path / "hosts" / host / "output" / "failure").read_text()
