"""Metric points: parts and log lines give the same values, and a resumed run replaces the values it computes again."""

import json
from typing import Any

import pytest

from traingrid.job import metrics
from traingrid.job.metrics import metric_regex
from traingrid.metrics import points
from traingrid.metrics.patterns import LINE_CHARACTERS, searched_part
from traingrid.metrics.points import LineReader, Record, drop_superseded, records_of_part
from training_container.launcher import metric_feed
from training_container.metric_history import line_reader
from training_container.metric_history.line_reader import LineReader as ImageReader

METRICS = {"loss": r"loss[=:] ?(\S+)", "epoch": r"\bepoch=(\S+)", "none": r"x|loss=(\d)"}


def record(line: str, minute: int = 0) -> Record:
    found = LineReader({"loss": r"loss=(\S+)", "top1": r"top1=(\S+)"}).record(line, minute * 60_000)
    assert found is not None
    return found


def left(*runs: list[str]) -> list[tuple[str, float, int | None]]:
    """Return metric, value and position of each value that is left of runs."""
    records = drop_superseded([list(map(record, run)) for run in runs])
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
        "loss=1_234.5 epoch=1_0",
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


@pytest.mark.parametrize("number", ["1 234,5", "1\u00a0234,5", "1\u202f234,5", "1'234.5", "1_234.5", "1,234.5"])
def test_an_ambiguous_number_is_named_once_and_not_recorded(number: str) -> None:
    warned: list[str] = []
    loss = {"loss": metric_regex("loss")}
    reader = ImageReader(loss, warned.append)
    assert [reader.read(f"step=3 loss={number}", 0.0) for _ in range(3)] == [None] * 3
    (sentence,) = warned
    assert "The metric loss has no value in " in sentence
    assert "digits and one point only" in sentence
    assert LineReader(loss).record(f"step=3 loss={number}", 0) is None
    assert reader.read("step=3 loss=1234.5", 0.0)


@pytest.mark.parametrize("line", ["loss=1/3", "loss=nan", "loss=none 1", "val_loss=1,2", "loss= 1 2", "lossy=1,2"])
def test_other_text_without_a_value_is_not_named(line: str) -> None:
    assert ImageReader({"loss": metric_regex("loss")}, pytest.fail).read(line, 0.0) is None


def test_the_training_image_has_the_same_expressions() -> None:
    for name in ("NAME_START", "NUMBER", "NUMBER_END", "WORD_END"):
        assert getattr(line_reader, name) == getattr(metrics, name)
    assert line_reader.POSITIONS == points.POSITIONS


@pytest.mark.parametrize(
    ("line", "step", "epoch"),
    [
        ("step=1e+05", 100_000, None),
        ("epoch=2e1 step: 5.0", 5, 20),
        ('{"epoch": 3, "step":7}', 7, 3),
        ("step -1 epoch=-2", None, None),
        ("step \u22121 epoch=.5", None, None),
        ("epoch-3 step - 5", 5, 3),
        *((f"step=5{end}", None, None) for end in ("B", "k", "ms", "-3", "e", "Ki", ":30", "*2")),
        *((f"step={number}", None, None) for number in ("1 000", "0x1f", "1e-3", "nan", "1e400", "9" * 16)),
        ("step 1 000 000, epoch 3 20 s", None, 3),
        ("Epoch 3 100%| 200/500", None, 3),
        ("Epoch 3 200/500", None, 3),
        ("Epoch 3. Step 4.", 4, 3),
        ("val/step=3 my_epoch=4 sub-step 5", None, None),
        ("INFO:root:step=3 \x1b[1mepoch=4\x1b[0m", 3, 4),
    ],
)
def test_a_position_is_a_whole_number_after_the_word(line: str, step: int | None, epoch: int | None) -> None:
    read = LineReader({"loss": metric_regex("loss")}).record(f"{line} loss=1", 0)
    written = ImageReader({"loss": metric_regex("loss")}, pytest.fail).read(f"{line} loss=1", 0.0)
    assert read is not None
    assert written is not None
    assert list(records_of_part(written.encode())) == [read]
    assert (read.step, read.epoch) == (step, epoch)


def test_steps_with_an_exponent_supersede_no_earlier_steps() -> None:
    before, after = [f"step={step:g} loss=1" for step in (300_000, 900_000)], [f"step={1_000_000:g} loss=2"]
    assert left(before, after) == [("loss", 1, 300_000), ("loss", 1, 900_000), ("loss", 2, 1_000_000)]


@pytest.mark.parametrize("value", ["12345.678", "1.5e-07", "1.5k", "1\u2009234"])
@pytest.mark.parametrize("regex", [metric_regex("loss"), r"loss=(\S+)"])
def test_a_number_that_the_limit_of_a_line_cuts_has_no_value(value: str, regex: str) -> None:
    for cut in range(1, len(value) + 1):
        line = f"acc=1 {'x' * (LINE_CHARACTERS - 12 - len(value) + cut)} loss={value}"
        assert len(line) == LINE_CHARACTERS + cut
        record = LineReader({"acc": metric_regex("acc"), "loss": regex}).record(line, 0)
        assert record is not None
        assert record.values == {"acc": 1}
        passed = metric_feed.searched_part(line.encode())
        assert len(passed) <= LINE_CHARACTERS
        assert b"loss=1" not in passed


def test_a_word_that_ends_at_the_limit_is_searched() -> None:
    line = "x" * (LINE_CHARACTERS - 9) + " loss=0.5"
    for rest in ("", " ", ", acc=1", ")" * 10):
        expected = line[: -len("0.5")] if rest.startswith(",") else line
        assert searched_part(line + rest) == expected
        assert metric_feed.searched_part((line + rest).encode()) == expected.encode()
    assert searched_part("x" * 10_000) == ""
    assert metric_feed.searched_part(b"x" * 10_000) == b""


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
