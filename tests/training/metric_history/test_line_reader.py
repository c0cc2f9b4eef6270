"""Line reader: values, steps and epochs of ordinary and hostile lines."""

import json
from typing import Any

import pytest

from training_container.metric_history.line_reader import LineReader
from training_container.recipe import metric_lines

NAMES = ("epoch", "train_loss", "step_seconds")
OURS = {name: rf"\b{name}=([-+0-9.eE]+)" for name in NAMES}
SECONDS = 1_795_449_600.25


def read(line: str, metrics: dict[str, str] | None = None) -> dict[str, Any] | None:
    record = LineReader(metrics or OURS, pytest.fail).read(line, SECONDS)
    return json.loads(record) if record else None


def test_an_epoch_line_of_the_trainer() -> None:
    line = metric_lines.line(3, {"train_loss": 0.25, "step_seconds": 0.125, "ranks": 8}) + "\n"
    expected = {"epoch": 3.0, "train_loss": 0.25, "step_seconds": 0.125}
    assert read(line) == {"time": "2026-11-23T16:00:00.250Z", "epoch": 3, "metrics": expected}


def test_a_progress_line_of_the_trainer_has_a_step() -> None:
    line = "Epoch 2 of 20, 40 of 40 steps: step=80 recent_loss=1.5 step_seconds=0.1"
    found = read(line)
    assert found is not None
    assert (found["epoch"], found["step"], found["metrics"]) == (2, 80, {"step_seconds": 0.1})


@pytest.mark.parametrize(
    ("line", "step", "epoch"),
    [
        ("Epoch 3/20 - loss: 0.5", None, 3),
        ("epoch: 3, step: 100, loss: 0.5", 100, 3),
        ("Epoch [3/20], Step [100/200], loss: 0.5", 100, 3),
        ("global_step=7 loss: 0.5", 7, None),
        ("epochs 9, 12 steps, steps 4, my_epoch=3 epoch=1.5 loss: 0.5", None, None),
        ("Step 1,200/5,000, epoch 1'200, loss: 0.5", None, None),
        ("step 12_000 epoch 3, loss: 0.5", None, 3),
        ("step 12k/40k, epoch 0x1f, loss: 0.5", None, None),
        ("loss: 0.5", None, None),
    ],
)
def test_the_position_of_a_scripts_line(line: str, step: int | None, epoch: int | None) -> None:
    found = read(line, {"loss": r"loss: ([0-9.]+)"})
    assert found is not None
    assert (found.get("step"), found.get("epoch"), found["metrics"]) == (step, epoch, {"loss": 0.5})


def test_a_metric_named_epoch_determines_the_epoch() -> None:
    found = read("pass 4 of epoch 9: loss: 0.5", {"epoch": r"pass (\d+)", "loss": r"loss: ([0-9.]+)"})
    assert found is not None
    assert found["epoch"] == 4


@pytest.mark.parametrize(
    "line",
    [
        "",
        "loss: nan",
        "loss: inf",
        "loss: -Infinity",
        "loss: 1e999",
        "loss: 1e",
        "loss: --",
        "loss: \ud800",
        "\x00\ufffd",
    ],
)
def test_a_line_without_a_finite_value_has_no_record(line: str) -> None:
    assert read(line, {"loss": r"loss: (\S+)"}) is None


def test_a_group_that_takes_no_part_has_no_value() -> None:
    assert read("done", {"loss": r"done|loss: (\S+)", "none": "done"}) is None


def test_an_expression_that_this_python_rejects_is_reported_and_the_others_work() -> None:
    warnings: list[str] = []
    reader = LineReader({"bad": "(?P<x", "loss": r"loss: (\S+)"}, warnings.append)
    assert reader.read("loss: 1", SECONDS) is not None
    assert len(warnings) == 1
    assert warnings[0].startswith("The metric bad has no history: its regular expression is not valid here: ")
