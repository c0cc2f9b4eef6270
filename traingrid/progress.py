"""Progress of a training, read from its log lines by the metrics' regular expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Progress:
    """The last value of each metric.

    Args:
        metrics: Metric name to a regular expression whose first group is the value, as SageMaker takes them.

    Attributes:
        values: Metric name to its last value; names that were not seen yet are missing.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        self._patterns = {name: re.compile(regex) for name, regex in metrics.items()}
        self.values: dict[str, float] = {}

    def read(self, line: str) -> bool:
        """Take the values out of a log line; return whether there were any."""
        found = {name: match for name, pattern in self._patterns.items() if (match := pattern.search(line))}
        for name, match in found.items():
            try:
                self.values[name] = float(match[1])
            except ValueError:  # a word that looks like a number, such as "1e" or "-"; the log shows it anyway
                continue
        return bool(found)
