"""Line reader: finds the values of metrics in a line of output, and formats them for a part."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

# The number after the word, as in epoch=3, "Epoch 3/20", "epoch: 3", "Step [100/200]" and "global_step 100".
_POSITIONS = {
    "step": re.compile(
        r"\b(?:global_)?step\W{1,3}(\d{1,15})(?![.,'_\xa0\u2009\u202f]?\d|[kKMGT]\b|x[0-9a-f])", re.IGNORECASE
    ),
    "epoch": re.compile(r"\bepoch\W{1,3}(\d{1,15})(?![.,'_\xa0\u2009\u202f]?\d|[kKMGT]\b|x[0-9a-f])", re.IGNORECASE),
}


class LineReader:
    """Applies a job's regular expressions to lines, as SageMaker does for CloudWatch.

    Args:
        metrics: The regular expression of each metric, by name. The first group is the value.
        warn: Receives a sentence for each regular expression that this Python rejects; its metric has no history.
    """

    def __init__(self, metrics: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._patterns: dict[str, re.Pattern[str]] = {}
        for name, regex in metrics.items():
            try:
                self._patterns[name] = re.compile(regex)
            except (re.error, RecursionError, OverflowError) as error:
                warn(f"The metric {name} has no history: its regular expression is not valid here: {error}.")

    def read(self, line: str, seconds: float) -> str | None:
        """Return a JSON object with the values in a line, its step and its epoch; None if it has no value.

        A metric named `step` or `epoch` determines that position; otherwise it is the number after the word in the
        line. Values that are not finite are left out: JSON has no form for them, and CloudWatch rejects them, too
        (PutMetricData in the CloudWatch API reference).

        Args:
            seconds: Its time in seconds since 1970.
        """
        match_by_metric = {name: pattern.search(line) for name, pattern in self._patterns.items()}
        values = {
            name: value for name, match in match_by_metric.items() if match and (value := _value(match)) is not None
        }
        if not values:
            return None
        at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record: dict[str, object] = {"time": at}
        for name, pattern in _POSITIONS.items():
            position = _position(values.get(name), pattern, line)
            if position is not None:
                record[name] = position
        return json.dumps(record | {"metrics": values}, separators=(",", ":"))


def _value(match: re.Match[str]) -> float | None:
    """Return the value of a metric; None if the group is not a finite number."""
    try:
        value = float(match[1])
    except (ValueError, TypeError, IndexError):  # a word like "1e", a group that took no part, or no group
        return None
    return value if math.isfinite(value) else None


def _position(value: float | None, pattern: re.Pattern[str], line: str) -> int | None:
    if value is not None:
        return int(value) if value.is_integer() and 0 <= value < 1e15 else None
    match = pattern.search(line)
    return int(match[1]) if match else None
