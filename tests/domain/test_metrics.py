"""What the trainer prints and what SageMaker and the ledger look for: declared in two packages that share no code."""

import re

import pytest

from traingrid.grid_job import JobDefaults
from traingrid.manifest_values import metric_regex, metrics
from training_container.trainer import metric_lines

MOST_METRIC_DEFINITIONS = 40
"""Of a training job (AlgorithmSpecification.MetricDefinitions in SageMaker's API reference)."""


def values() -> dict[str, float]:
    """Return another value for each metric, among them what only an exponent or a sign can say."""
    return {name: (-1) ** place * 10.0 ** (place - 9) for place, name in enumerate(metric_lines.METRICS, start=1)}


@pytest.mark.parametrize("name", [name for name in metric_lines.METRICS if name != "epoch"])
def test_the_regex_of_every_metric_finds_its_value_in_a_line_of_all(name: str) -> None:
    others = {other: value for other, value in values().items() if other != "epoch"}
    printed = metric_lines.line(3, others)
    found = re.findall(metric_regex(name), printed)
    assert [float(value) for value in found] == [pytest.approx(values()[name])]
    assert re.findall(metric_regex("epoch"), printed) == ["3"]


def test_a_grid_declares_by_default_what_the_trainer_says() -> None:
    assert JobDefaults.model_fields["metrics"].default == metric_lines.BY_DEFAULT


def test_all_metrics_may_be_named_in_a_manifest_at_once() -> None:
    assert list(metrics(list(metric_lines.METRICS))) == list(metric_lines.METRICS)
    assert len(metric_lines.METRICS) <= MOST_METRIC_DEFINITIONS


def test_a_metric_that_nobody_would_find_is_not_printed() -> None:
    with pytest.raises(KeyError, match="top_3 is not declared"):
        metric_lines.line(1, {"top_3": 0.5})
