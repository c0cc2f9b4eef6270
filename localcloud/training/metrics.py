"""FinalMetricDataList: what the regular expressions of MetricDefinitions find in a job's output."""

import math
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


class Metrics:
    """The last value of every metric, gathered line by line from any thread."""

    def __init__(self, definitions: Sequence[Mapping[str, str]]) -> None:
        """Take MetricDefinitions.

        Raises:
            re.error: A regular expression is wrong.
        """
        self._patterns = [(definition["Name"], re.compile(definition["Regex"])) for definition in definitions]
        self._values: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def read(self, line: str) -> None:
        """Look for every metric in one line; the first group of its expression is the value."""
        for name, pattern in self._patterns:
            for match in pattern.finditer(line):
                self._keep(name, match)

    def _keep(self, name: str, match: re.Match[str]) -> None:
        try:
            value = float(match.group(1))
        except (IndexError, TypeError, ValueError):  # no group, or no number in it: CloudWatch gets nothing either
            return
        if not math.isfinite(value):  # API reference, PutMetricData: "NaN, +Infinity, -Infinity are not supported"
            return
        with self._lock:
            self._values[name] = {"MetricName": name, "Value": value, "Timestamp": datetime.now(UTC)}

    def final(self) -> list[dict[str, Any]]:
        """The list as DescribeTrainingJob shows it, in the order of the definitions."""
        with self._lock:
            return [self._values[name] for name, _ in self._patterns if name in self._values]
