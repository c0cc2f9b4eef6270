"""Two ranks that lose their host again and again, against two that do not: what they print is the same."""

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
from training_container.trainer.checkpoints import Checkpoints, Progress

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]

PATIENCE_SECONDS = 120
EPOCHS = 4
STEPS = EPOCHS * 6
# A line of progress after every step tells the test where the training is.
LONG = TINY | {
    "epochs": str(EPOCHS),
    "steps_per_epoch": "6",
    "checkpoint_every_steps": "4",
    "progress_seconds": "0.000001",
    "ema": "0.9",
}
# What must not depend on interruptions, unlike the times.
EXACT = ("train_loss", "learning_rate", "validation_loss", "validation_top1", "validation_top5")


def epochs(output: str) -> dict[int, dict[str, str]]:
    """Return the metrics of each epoch as they were printed."""
    lines = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in output.splitlines() if line.startswith("epoch=")]
    return {int(metrics["epoch"]): {name: metrics[name] for name in EXACT} for metrics in lines}


def finished(train: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = train.communicate(timeout=PATIENCE_SECONDS)
    return train.returncode, output


def follow_to_step(train: "subprocess.Popen[str]", step: int) -> str:
    """Read the output until the training has done a step."""
    assert train.stdout is not None
    read = ""
    for line in train.stdout:
        read += line
        if (found := re.search(r"\bstep=(\d+)", line)) and int(found[1]) >= step:
            return read
    raise AssertionError(f"step {step} never came: {read}")


def lose_host(train: "subprocess.Popen[str]") -> str:
    """Kill every process of the training at once; return what it had printed."""
    processes = [*psutil.Process(train.pid).children(recursive=True), psutil.Process(train.pid)]
    for process in processes:
        process.suspend()
    for process in processes:
        process.kill()
    return train.communicate(timeout=PATIENCE_SECONDS)[0]


def reconfigure(base: Path, **hyperparameters: str) -> None:
    path = base / "input" / "config" / "hyperparameters.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | hyperparameters))


def test_a_training_that_loses_its_host_prints_what_an_undisturbed_one_prints(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    status, output = finished(start(host_folder(tmp_path / "undisturbed", LONG)))
    assert status == 0, output
    expected = epochs(output)
    assert list(expected) == list(range(1, EPOCHS + 1))

    base = host_folder(tmp_path / "disturbed", LONG)
    seen: dict[int, dict[str, str]] = {}
    chance = random.Random(5)
    for first, last in ((5, 8), (13, 20)):
        train = start(base)
        printed = follow_to_step(train, chance.randint(first, last)) + lose_host(train)
        assert {epoch: expected[epoch] for epoch in epochs(printed)} == epochs(printed)
        seen |= epochs(printed)
    # What S3 brought back of the newest checkpoint is not all of it.
    newest = max((base / "checkpoints").glob("step-*"))
    (newest / "variables.index").unlink()
    status, output = finished(start(base))
    assert status == 0, output
    assert f"Checkpoint {newest} is passed over, because it is not whole: variables.index is missing." in output
    assert "Continuing after step " in output
    assert seen | epochs(output) == expected
    assert json.loads((base / "model" / "report.json").read_text())["steps_trained"] == STEPS


def test_a_stop_saves_within_the_grace_and_the_next_start_goes_on_from_that_step(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    base = host_folder(tmp_path / "ml", LONG | {"epochs": "1000", "checkpoint_every_steps": "0"})
    reconfigure(base, checkpoint_every="1000")
    train = start(base)
    follow_to_step(train, 8)
    os.killpg(train.pid, signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output
    (saved,) = (base / "checkpoints").iterdir()
    step = int(saved.name.removeprefix("step-"))
    assert step > 8
    assert f"Stopped after step {step}; the checkpoint is written." in output
    assert not (base / "output" / "failure").exists()

    reconfigure(base, epochs=str(step // 6 + 1), sagemaker_mpi_num_of_processes_per_host="1")
    status, output = finished(start(base))
    assert status == 0, output
    assert f"Continuing after step {step}, in epoch {step // 6 + 1}." in output
    assert "The checkpoint is of 2 ranks with 8 images each, and this job has 1 rank with 8 each" in output
    assert list(epochs(output)) == [step // 6 + 1]


def test_a_checkpoint_of_another_network_fails_with_a_sentence(
    host_folder: Write, start: Start, tmp_path: Path
) -> None:
    base = host_folder(tmp_path / "ml", TINY | {"model": "resnet20"}, processes=1)
    identity = {"model": "resnet8", "classes": 10}
    Checkpoints(base / "checkpoints", identity=identity, weight=tf.Variable(0.0)).save(Progress(step=2))
    status, output = finished(start(base))
    assert status == 1, output
    sentence = (base / "output" / "failure").read_text().splitlines()[0]
    assert "is of model resnet8, classes 10; this job trains model resnet20, classes 10." in sentence
    assert "another place for its checkpoints" in sentence
