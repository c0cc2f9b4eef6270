"""Metric points: parts and log lines give the same values, and a resumed run replaces the values it computes again."""

import json
from typing import Any

import pytest

from traingrid.submission.metric_points import LineReader, Record, records_of_part, without_superseded
from training_container.metric_history.line_reader import LineReader as ImageReader

METRICS = {"loss": r"loss[=:] ?(\S+)", "epoch": r"\bepoch=(\S+)", "none": r"x|loss=(\d)"}


def record(line: str, minute: int = 0) -> Record:
    found = LineReader({"loss": r"loss=(\S+)", "top1": r"top1=(\S+)"}).record(line, minute * 60_000)
    assert found is not None
    return found


def left(*runs: list[str]) -> list[tuple[str, float, int | None]]:
    """Return metric, value and position of each value that is left of runs."""
    records = without_superseded([list(map(record, run)) for run in runs])
    return [
        (name, value, one.step if one.step is not None else one.epoch)
        for one in records
        for name, value in one.values.items()
    ]


@pytest.mark.parametrize(
    "line",
    [
        "epoch=3 loss=0.5",
        "epoch=3.5 loss=0.5 step=7",
        "Epoch 2 of 20, 40 of 40 steps: step=80 loss=1.5",
        "Epoch [3/20], Step [100/200], loss: 0.5",
        "Step 1,200/5,000 loss=1",
        "Step 12k/40k loss=1",
        "epoch 1\u202f200 loss=1",
        "loss=nan",
        "loss=1e999 epoch=2",
        "\x00\ufffd loss=-1",
        "step=99999999999999999 loss=1",
        "nothing",
        "",
    ],
)
def test_a_line_of_a_log_gives_the_same_record_as_in_the_training_image(line: str) -> None:
    written = ImageReader(METRICS, pytest.fail).read(line, 1_795_449_600.25)
    parts = list(records_of_part(written.encode())) if written else []
    read = LineReader(METRICS).record(line, 1_795_449_600_250)
    assert parts == ([read] if read else [])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"time":"2026-11-23T16:00:00Z","metrics":[]}',
        b'{"time":"2026-11-23T16:00:00Z","metrics":{"loss":"x"}}',
        b'{"time":"yesterday","metrics":{"loss":1}}',
        b'{"time":7,"metrics":{"loss":1}}',
        b'{"time":"2026-11-23T16:00:00Z","metrics":{"loss":' + b"9" * 400 + b"}}",
    ],
)
def test_malformed_lines_of_a_part_are_skipped(line: bytes) -> None:
    good = json.dumps(
        {"time": "2026-11-23T16:00:00Z", "step": -1, "epoch": True, "metrics": {"a": 1, "b": float("nan")}}
    )
    (found,) = records_of_part(line + b"\n" + good.encode() + b"\n" + line)
    assert (found.values, found.step, found.epoch) == ({"a": 1.0}, None, None)


def test_a_resumed_run_replaces_the_steps_that_it_computes_again() -> None:
    before = ["step=100 loss=3", "step=200 loss=2", "step=300 loss=1", "epoch=1 top1=0.1", "epoch=2 top1=0.2"]
    after = ["step=250 loss=1.5", "step=350 loss=0.5", "epoch=2 top1=0.3"]
    assert left(before, after) == [
        ("loss", 3, 100),
        ("loss", 2, 200),
        ("top1", 0.1, 1),
        ("loss", 1.5, 250),
        ("loss", 0.5, 350),
        ("top1", 0.3, 2),
    ]


def test_the_last_of_several_runs_wins() -> None:
    assert left(["epoch=1 loss=1", "epoch=2 loss=2"], ["epoch=2 loss=3", "epoch=3 loss=4"], ["epoch=1 loss=5"]) == [
        ("loss", 5, 1)
    ]


def test_repeated_steps_of_one_run_and_values_without_position_are_kept() -> None:
    assert left(["epoch=1 loss=1", "epoch=1 loss=2", "loss=3"], ["loss=4"]) == [
        ("loss", 1, 1),
        ("loss", 2, 1),
        ("loss", 3, None),
        ("loss", 4, None),
    ]


def test_a_metric_that_the_later_run_has_not_reported_yet_keeps_its_values() -> None:
    values: list[Any] = left(["epoch=1 loss=1 top1=0.1", "epoch=2 loss=2 top1=0.2"], ["epoch=1 loss=3"])
    assert values == [("top1", 0.1, 1), ("top1", 0.2, 2), ("loss", 3, 1)]
