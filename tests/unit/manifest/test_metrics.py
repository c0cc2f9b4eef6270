"""Metrics: the trainer's output matches the regular expressions, which another package declares separately."""

import re

import pytest

from traingrid.grid.job_defaults import JobDefaults
from traingrid.manifest.values import metric_regex, metrics
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
