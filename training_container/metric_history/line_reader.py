"""Line reader: finds the values of metrics in a line of output, and formats them for a part."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

# The parts are those of traingrid/job/metrics.py, which explains them.
NAME_START = r"(?:^|[^\w./-])(?:\x1b.[0-?]*[A-Za-z])*"
NUMBER = r"[-+0-9.eE]*[0-9]"
WORD_END = r"[\t-&();-@{-}]"
NUMBER_END = rf"(?:$|{WORD_END}|[^\t-&()0-9;-Za-}}]+(?:$|[\t-&();-Za-}}]))"
_JOINED = r"=[-+]?[0-9][0-9.]*[ ',_\u00a0\u2009\u2019\u202f][0-9]\S*"
"""After a name, a number with a character that may group its digits."""
_AMBIGUOUS = (
    "The metric {} has no value in {!r}, because the number has other characters between its digits. Print it with "
    "digits and one point only. Further lines of this metric are not reported."
)
_SHOWN = 80
_GAP = r"(?:-|\W{0,2}[^\w.+\u2212-])"  # without a sign or a decimal point, which belong to the number
POSITIONS = {
    name: re.compile(
        rf"{NAME_START}{words}{_GAP}({NUMBER})(?! [0-9]{{3}}(?:$|[^\w/%:.]))(?:/|{NUMBER_END})", re.IGNORECASE
    )
    for name, words in (("step", "(?:global_)?step"), ("epoch", "epoch"))
}
"""The number after a word, as in epoch=3, "Epoch 3/20", "epoch: 3", "Step [100/200]" and "global_step 100", but not in
"step 5ms" or "step 1 000"."""


class LineReader:
    """Applies a job's regular expressions to lines, as SageMaker does for CloudWatch.

    Args:
        metrics: The regular expression of each metric, by name. The first group is the value.
        warn: Receives a sentence for each regular expression that this Python rejects, whose metric has no history, and
            for the first number of a metric whose digits are grouped.
    """

    def __init__(self, metrics: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._warn, self._patterns_to_warn_of = warn, dict[str, re.Pattern[str]]()
        self._patterns: dict[str, re.Pattern[str]] = {}
        for name, regex in metrics.items():
            try:
                self._patterns[name] = re.compile(regex)
            except (re.error, RecursionError, OverflowError) as error:
                warn(f"The metric {name} has no history: its regular expression is not valid here: {error}.")
            if regex.startswith(NAME_START):  # not a regular expression of the user
                self._patterns_to_warn_of[name] = re.compile(NAME_START + re.escape(name) + _JOINED)

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
        for name in [name for name in self._patterns_to_warn_of if name not in values and f"{name}=" in line]:
            if grouped := self._patterns_to_warn_of[name].search(line):
                self._warn(_AMBIGUOUS.format(name, grouped[0].strip()[:_SHOWN]))
                del self._patterns_to_warn_of[name]
        if not values:
            return None
        positions = {name: _position(values.get(name), pattern, line) for name, pattern in POSITIONS.items()}
        return record_of(values, seconds, {name: value for name, value in positions.items() if value is not None})


def record_of(values: Mapping[str, float], seconds: float, positions: Mapping[str, int] = {}) -> str:
    """Return a JSON object with values of metrics, their time, and their step and epoch if they have them.

    Args:
        seconds: Their time in seconds since 1970.
    """
    timestamp = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": timestamp, **positions, "metrics": values}, separators=(",", ":"))


def _value(match: re.Match[str]) -> float | None:
    """Return the value of a metric; None if the group is not a finite number."""
    try:
        value = float(match[1])
    except (ValueError, TypeError, IndexError):  # a word like "1e", a group that took no part, or no group
        return None
    return value if math.isfinite(value) and "_" not in match[1] else None  # Python's 1_234 is no number elsewhere


def _position(value: float | None, pattern: re.Pattern[str], line: str) -> int | None:
    if value is None:
        match = pattern.search(line)
        value = _value(match) if match else None
    return int(value) if value is not None and value.is_integer() and 0 <= value < 1e15 else None
