"""FinalMetricDataList: the values that the regular expressions of MetricDefinitions find in a job's output."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

import re2
from moto.cloudwatch.models import cloudwatch_backends

NAMESPACE = "/aws/sagemaker/TrainingJobs"
"""CloudWatch's namespace of training metrics."""


class Metrics:
    """The last value of every metric, collected line by line. Thread-safe."""

    def __init__(
        self, definitions: Sequence[Mapping[str, str]], publish: Callable[[str, float, datetime], None] | None = None
    ) -> None:
        """Compile MetricDefinitions.

        Args:
            definitions: Names and regular expressions.
            publish: Receives the name, value and time of each value when it is found.
        """
        self._publish = publish
        self._patterns = [
            (definition["Name"], pattern)
            for definition in definitions
            if (pattern := _compiled(definition["Regex"])) is not None
        ]
        self._values: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def read(self, line: str) -> None:
        """Search one line for all metrics; the first group of the expression is the value."""
        line = line.encode(errors="replace").decode()  # RE2 reads UTF-8, which has no surrogates
        for name, pattern in self._patterns:
            for match in pattern.finditer(line):
                self._record_value(name, match)

    def _record_value(self, name: str, match: Any) -> None:
        try:
            value = float(match.group(1))
        except (IndexError, TypeError, ValueError):  # no group, or not a number; CloudWatch receives no value either
            return
        if not math.isfinite(value):  # API reference, PutMetricData: "NaN, +Infinity, -Infinity are not supported"
            return
        at = datetime.now(UTC)
        with self._lock:
            self._values[name] = {"MetricName": name, "Value": value, "Timestamp": at}
        if self._publish:
            self._publish(name, value, at)

    def final(self) -> list[dict[str, Any]]:
        """Return the list as DescribeTrainingJob shows it, in the order of the definitions."""
        with self._lock:
            return [self._values[name] for name, _ in self._patterns if name in self._values]


def to_cloudwatch(account: str, region: str, job: str) -> Callable[[str, float, datetime], None]:
    """Return a function that publishes a job's metrics as SageMaker does.

    The SageMaker Python SDK v2 reads this namespace and this dimension (TrainingJobAnalytics in
    sagemaker.analytics).
    """
    return partial(_put, account, region, job)


def _put(account: str, region: str, job: str, name: str, value: float, at: datetime) -> None:  # noqa: PLR0913, PLR0917  # the fields of one datum
    dimensions = [{"Name": "TrainingJobName", "Value": job}]
    # moto compares times without a time zone.
    datum = {"MetricName": name, "Dimensions": dimensions, "Value": value, "Timestamp": at.replace(tzinfo=None)}
    cloudwatch_backends[account][region].put_metric_data(NAMESPACE, [datum])


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> Any:
    """Return a pattern, or None for an expression that RE2 does not have, or that has no group.

    SageMaker does not document its engine. RE2 needs a time that is linear in the line, so no expression of a user can
    stall the server (https://github.com/google/re2/wiki/WhyRE2).
    """
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(regex, options)
    except re2.error:
        return None
    return pattern if pattern.groups else None
