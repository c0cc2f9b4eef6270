"""Training progress: reads metrics from log lines by their regular expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Progress:
    """The last value of each metric.

    Args:
        metrics: Metric name to a regular expression whose first group is the value, in SageMaker's form.

    Attributes:
        values: Metric name to its last value, for the metrics that were seen.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        self._patterns = {name: re.compile(regex) for name, regex in metrics.items()}
        self.values: dict[str, float] = {}

    def read(self, line: str) -> bool:
        """Read the metrics in a log line; return True if it contains any."""
        found = {name: match for name, pattern in self._patterns.items() if (match := pattern.search(line))}
        for name, match in found.items():
            try:
                self.values[name] = float(match[1])
            except (ValueError, TypeError):  # a word such as "1e" or "-", or a group that took no part in the match
                continue
        return bool(found)
