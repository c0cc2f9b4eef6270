"""Metric patterns: values in lines of output, for hostile expressions and lines."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.sagemaker.metrics import Metrics
from traingrid.child.progress import MetricProgress
from traingrid.job.metrics import metric_regex
from traingrid.metrics.patterns import MetricPatterns, compiled
from traingrid.metrics.points import LineReader, records_of_part

EXPLODING = (r"(?:a+)+=(.)", r"(a|aa)+$(.)", r"(.*,)*x(\d)", r"(.*)(.*)(.*)(.*)(.*)=(\d)")
LINES = ("a" * 4000, "a," * 2000, "a" * 10**6)


def progress(metrics: dict[str, str]) -> Callable[[str], object]:
    return MetricProgress(metrics).read


def page(metrics: dict[str, str]) -> Callable[[str], object]:
    return lambda line: LineReader(metrics).record(line, 0)


def local_aws(metrics: dict[str, str]) -> Callable[[str], object]:
    return Metrics([{"Name": name, "Regex": regex} for name, regex in metrics.items()]).read


@pytest.mark.parametrize("reader", [progress, page, local_aws])
@pytest.mark.parametrize("regex", EXPLODING)
def test_an_expression_that_explodes_stalls_no_reader(reader: Any, regex: str) -> None:
    started = time.process_time()
    read = reader({"loss": regex})
    for line in LINES:
        read(line)
    assert time.process_time() - started < 5  # Python's engine needs longer than the universe for the first


def test_an_expression_that_this_engine_lacks_is_named_and_the_others_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        found = MetricPatterns({"behind": r"(?<=x)(\d)", "twice": r"(\d)\1", "loss": r"loss is (\S+)"})
    assert [record.getMessage().split()[2] for record in caplog.records] == ["behind", "twice"]
    assert dict(found.matches("x1 22 loss is 0.5")) == {"loss": 0.5}


@pytest.mark.parametrize("text", ["loss=0.5", "größe loss=0.5", "\ud800 loss=0.5", "loss=0.5 " + "x" * 10**6])
@pytest.mark.parametrize("regex", [metric_regex("loss"), r"loss=([0-9.]+)", r"(?P<value>0\.5)"])
def test_a_value_is_found_in_every_line(text: str, regex: str) -> None:
    assert dict(MetricPatterns({"loss": regex}).matches(text)) == {"loss": 0.5}


@pytest.mark.parametrize("word", ["nan", "inf", "1e999", "-", "1e", "9" * 400, "1_000.x"])
def test_a_word_that_is_no_finite_number_is_no_value(word: str) -> None:
    assert dict(MetricPatterns({"loss": r"loss=(\S+)"}).matches(f"loss={word}")) == {"loss": None}
    reader = MetricProgress({"loss": r"loss=(\S+)"})
    reader.read(f"loss={word}")
    assert reader.values == {}


def test_an_expression_without_a_group_has_no_value() -> None:
    assert compiled("loss", "loss") is None


@pytest.mark.parametrize("position", ["9" * 400, "-1", "1.5", "true", str(10**15)])
def test_a_position_that_is_no_count_is_left_out(position: str) -> None:
    line = f'{{"time": "2026-01-01T00:00:00Z", "epoch": {position}, "step": {position}, "metrics": {{"loss": 1}}}}'
    ((record),) = records_of_part(line.encode())
    assert (record.epoch, record.step, record.values) == (None, None, {"loss": 1.0})


def test_a_part_has_bounded_names_values_and_metrics() -> None:
    def part(metrics: str) -> bytes:
        return f'{{"time": "2026-01-01T00:00:00Z", "metrics": {metrics}}}\n'.encode()

    names = ",".join(f'"m{number}": 1' for number in range(1000))
    lines = [part(f'{{"{"n" * 256}": 1, "a": 1.7e308, "b": -1e300, "c": 2}}'), part(f"{{{names}}}")]
    first, second = records_of_part(b"".join(lines))
    assert first.values == {"c": 2.0}
    assert len(second.values) == 40
