"""Training progress: reads metrics from log lines by their regular expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.metrics.patterns import MetricPatterns

if TYPE_CHECKING:
    from collections.abc import Mapping


class MetricProgress:
    """The last value of each metric.

    Args:
        metrics: Metric name to a regular expression whose first group is the value, in SageMaker's form.

    Attributes:
        values: Metric name to its last value, for the metrics that were seen.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        self._patterns = MetricPatterns(metrics)
        self.values: dict[str, float] = {}

    def read(self, line: str) -> bool:
        """Read the metrics in a log line; return True if it contains any."""
        values = dict(self._patterns.matches(line))
        self.values |= {name: value for name, value in values.items() if value is not None}
        return bool(values)
