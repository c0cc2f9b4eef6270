"""Metrics: the trainer's output matches the regular expressions, which another package declares separately."""

import re

import pytest
import re2

from traingrid.grid.job_defaults import JobDefaults
from traingrid.job.metrics import metric_regex
from traingrid.manifest.metrics import metrics
from training_container.trainer.reporting import metric_lines

MOST_METRIC_DEFINITIONS = 40
"""Of a training job (AlgorithmSpecification.MetricDefinitions in SageMaker's API reference)."""


def values() -> dict[str, float]:
    """Return a different value for each metric, including values with an exponent or a sign."""
    return {name: (-1) ** place * 10.0 ** (place - 9) for place, name in enumerate(metric_lines.METRICS, start=1)}


@pytest.mark.parametrize("name", [name for name in metric_lines.METRICS if name != "epoch"])
def test_every_metrics_regex_finds_its_value_in_a_line_of_all_metrics(name: str) -> None:
    others = {other: value for other, value in values().items() if other != "epoch"}
    printed = metric_lines.line(3, others)
    found = re.findall(metric_regex(name), printed)
    assert [float(value) for value in found] == [pytest.approx(values()[name])]
    assert re.findall(metric_regex("epoch"), printed) == ["3"]


def test_the_grids_default_metrics_are_those_of_the_trainer() -> None:
    assert JobDefaults.model_fields["metrics"].default == metric_lines.BY_DEFAULT


def test_all_metrics_may_be_named_in_a_manifest_at_once() -> None:
    assert list(metrics(list(metric_lines.METRICS))) == list(metric_lines.METRICS)
    assert len(metric_lines.METRICS) <= MOST_METRIC_DEFINITIONS


def test_the_trainer_prints_only_metrics_that_are_declared() -> None:
    with pytest.raises(KeyError, match="top_3 is not declared"):
        metric_lines.line(1, {"top_3": 0.5})


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        *((f"rate={number}{end}", number) for number in ("0.5", "7E-5", "-1e+3", "3") for end in ("", " ", ",x=1")),
        *((f"rate=0.5{end}", "0.5") for end in ("%", "s", "'", "'}", ", 3", ";", ")", "\u2502", "\n", "\r", "/s", "]")),
        *((f"rate=0.5{unit}{end}", "0.5") for unit in ("GB", "kB", "Mbit/s", "ms", "x") for end in ("", " ", ", 3")),
        ("x=1,234 rate=0.5", "0.5"),
        ("rate=1,234 rate=0.5", "0.5"),
    ],
)
def test_a_number_is_found_whatever_follows_it(printed: str, value: str) -> None:
    assert [match.group(1) for match in re.finditer(metric_regex("rate"), printed)] == [value]


@pytest.mark.parametrize(
    "number",
    [
        *("1,234.5", "1,234", "12,345,678", "98,5", "1_000", "1'234.5", "1.234,5"),
        *("1.5k", "1.5K", "2M", "3G", "1T", "0x1f", "0xff", "0X0"),
        *("1\u00a0234", "1\u202f234", "1\u2009234", "1\u2019234", "1\u066c234"),
    ],
)
def test_the_part_of_a_number_before_its_end_is_no_value(number: str) -> None:
    for engine in (re, re2):
        assert engine.search(metric_regex("rate"), f"epoch=3 rate={number} top1=0.5") is None


def test_the_expression_of_the_longest_name_is_one_that_sagemaker_accepts() -> None:
    name = "m" * 255
    assert metrics([name]) == {name: metric_regex(name)}
