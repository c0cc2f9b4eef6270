"""Two ranks that repeatedly lose their host print the same metrics as two that do not."""

import json
import os
import random
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import tensorflow as tf

from tests.training.conftest import TINY
from training_container.trainer.checkpoints.checkpoints import Checkpoints, Progress

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]

PATIENCE_SECONDS = 300
EPOCHS, STEPS_PER_EPOCH = 3, 20
# Checkpoints only within epochs, and a line after every step, so that the test knows the current step.
LONG = TINY | {
    "epochs": str(EPOCHS),
    "steps_per_epoch": str(STEPS_PER_EPOCH),
    "checkpoint_every": str(10 * EPOCHS),
    "checkpoint_every_steps": "7",
    "progress_seconds": "0.000001",
    "ema": "0.9",
}
# The metrics that must not depend on interruptions; times may differ.
EXACT = ("train_loss", "learning_rate", "validation_loss", "validation_top1", "validation_top5")


def epochs(output: str) -> dict[int, dict[str, str]]:
    """Return the printed metrics of each epoch."""
    lines = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in output.splitlines() if line.startswith("epoch=")]
    return {int(metrics["epoch"]): {name: metrics[name] for name in EXACT} for metrics in lines}


def finished(train: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = train.communicate(timeout=PATIENCE_SECONDS)
    return train.returncode, output


def follow_to_step(train: "subprocess.Popen[str]", step: int) -> str:
    """Read the output until the training has completed a step."""
    assert train.stdout is not None
    read = ""
    for line in train.stdout:
        read += line
        if (found := re.search(r"\bstep=(\d+)", line)) and int(found[1]) >= step:
            return read
    raise AssertionError(f"step {step} never came: {read}")


def lose_host(train: "subprocess.Popen[str]", step: int) -> str:
    """Kill all processes of a training when it has completed a step. Return the output so far."""
    printed = follow_to_step(train, 1)
    processes = [psutil.Process(train.pid), *psutil.Process(train.pid).children(recursive=True)]
    printed += follow_to_step(train, step)
    for process in reversed(processes):
        process.suspend()
    for process in processes:
        process.kill()
    return printed + train.communicate(timeout=PATIENCE_SECONDS)[0]


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def reconfigure(base: Path, **hyperparameters: str) -> None:
    path = base / "input" / "config" / "hyperparameters.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | hyperparameters))


def test_a_training_that_loses_its_host_prints_the_same_metrics(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    status, output = finished(start(host_folder(tmp_path / "undisturbed", LONG)))
    assert status == 0, output
    expected = epochs(output)
    assert list(expected) == list(range(1, EPOCHS + 1))

    base = host_folder(tmp_path / "disturbed", LONG)
    seen: dict[int, dict[str, str]] = {}
    chance = random.Random(5)
    for first, last in ((10, 18), (26, 38)):
        printed = lose_host(start(base), chance.randint(first, last))
        assert {epoch: expected[epoch] for epoch in epochs(printed)} == epochs(printed)
        seen |= epochs(printed)
    # Only a part of the newest checkpoint was restored from S3.
    previous, newest = sorted((base / "checkpoints").glob("checkpoint-*"))[-2:]
    (newest / "variables.index").unlink()
    status, output = finished(start(base))
    assert status == 0, output
    assert f"Checkpoint {newest} is skipped, because it is incomplete: variables.index is missing." in output
    step = step_of(previous)
    assert step < EPOCHS * STEPS_PER_EPOCH
    assert f"Continuing after step {step}, in epoch {step // STEPS_PER_EPOCH + 1}." in output
    assert seen | epochs(output) == expected
    report = json.loads((base / "model" / "report.json").read_text())
    assert report["steps_trained"] == EPOCHS * STEPS_PER_EPOCH


def test_a_stop_saves_in_time_and_the_next_start_continues_from_there(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    base = host_folder(
        tmp_path / "ml", LONG | {"epochs": "1000", "checkpoint_every": "1000", "checkpoint_every_steps": "0"}
    )
    train = start(base)
    follow_to_step(train, 25)
    os.killpg(train.pid, signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output
    saved = max((base / "checkpoints").glob("checkpoint-*"))
    step = step_of(saved)
    assert step > 25
    assert f"Stopped after step {step}; the checkpoint is written." in output
    assert not (base / "output" / "failure").exists()

    reconfigure(base, epochs=str(step // STEPS_PER_EPOCH + 1), sagemaker_mpi_num_of_processes_per_host="1")
    status, output = finished(start(base))
    assert status == 0, output
    assert f"Continuing after step {step}, in epoch {step // STEPS_PER_EPOCH + 1}." in output
    assert "The checkpoint is of 2 ranks with 8 images each, but this job has 1 rank with 8 each" in output
    assert list(epochs(output)) == [step // STEPS_PER_EPOCH + 1]


def test_a_training_continues_with_more_ranks(host_folder: Write, start: Start, tmp_path: Path) -> None:
    """With more ranks, the same part of the training has fewer steps, so they continue from a lower step."""
    whole = TINY | {"steps_per_epoch": "0", "batch_size": "16", "epochs": "2"}
    base = host_folder(tmp_path / "ml", whole, processes=1)
    status, output = finished(start(base))
    assert status == 0, output
    steps = step_of(max((base / "checkpoints").glob("checkpoint-*")))

    reconfigure(base, epochs="3", sagemaker_mpi_num_of_processes_per_host="2")
    status, output = finished(start(base))
    assert status == 0, output
    assert f"Continuing after step {steps}, in epoch 3. The checkpoint is of 1 rank with" in output
    with_two_ranks = step_of(max((base / "checkpoints").glob("checkpoint-*")))
    assert with_two_ranks < steps

    reconfigure(base, epochs="4")
    status, output = finished(start(base))
    assert status == 0, output
    assert f"Continuing after step {with_two_ranks}, in epoch 4.\n" in output
    assert list(epochs(output)) == [4]


def test_a_checkpoint_of_another_network_is_refused(host_folder: Write, start: Start, tmp_path: Path) -> None:
    base = host_folder(tmp_path / "ml", TINY | {"model": "resnet20"}, processes=1)
    identity = {"model": "resnet8", "classes": 10}
    Checkpoints(base / "checkpoints", identity=identity, weight=tf.Variable(0.0)).save(Progress(step=2))
    status, output = finished(start(base))
    assert status == 1, output
    sentence = (base / "output" / "failure").read_text().splitlines()[0]
    assert "is of model resnet8, classes 10, but this job trains model resnet20, classes 10." in sentence
    assert "another folder for this job's checkpoints" in sentence
