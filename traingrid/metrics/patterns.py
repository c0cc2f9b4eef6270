"""Metric patterns: finds the values of metrics in lines of output, in a time that is linear in the line.

The expressions are those of users, and Python's engine needs exponential time for some of them. RE2 is linear in the
line and limits its memory (https://github.com/google/re2/wiki/WhyRE2); it has no lookaround and no backreferences.
SageMaker applies each expression itself, with an engine that it does not document, so such a metric is in CloudWatch
and in the metric history, but not in the progress of its job.
"""

from __future__ import annotations

import logging
import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from traingrid.job.metrics import WORD_END, metric_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

logger = logging.getLogger(__name__)
LINE_CHARACTERS = 4000
"""The characters of a line that are searched, as in training_container/metric_history."""
_WORD_END = re.compile(WORD_END)


class MetricPatterns:
    """The regular expressions of a job's metrics.

    Args:
        metrics: The regular expression of each metric, by name. The first group is the value.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        patterns = ((name, compiled(name, regex)) for name, regex in metrics.items())
        self._patterns = {name: pattern for name, pattern in patterns if pattern is not None}

    def matches(self, line: str) -> Iterator[tuple[str, float | None]]:
        """Yield the name of each metric in a line, and its value; None if its group is no finite number."""
        line = searchable(searched_part(line))
        for name, pattern in self._patterns.items():
            if match := pattern.search(line):
                yield name, number(match[1])


def searched_part(line: str) -> str:
    """Return the first characters of a line that is longer than the limit, without the word or number that it cuts."""
    if len(line) <= LINE_CHARACTERS:
        return line
    end = LINE_CHARACTERS + 1
    while end and not _WORD_END.match(line, end - 1):
        end -= 1
    return line[: min(end, LINE_CHARACTERS)]


def searchable(line: str) -> str:
    """Return a line as RE2 reads it: without surrogates, which UTF-8 does not have."""
    return line if line.isascii() else line.encode(errors="replace").decode()


@lru_cache(maxsize=1024)
def compiled(name: str, regex: str) -> Any:
    """Return a pattern with `search` and `finditer`, or None, with a warning, for an expression that RE2 does not have.

    Args:
        name: The name of the metric.
    """
    if regex == metric_regex(name):  # nearly always: no repetition in it is ambiguous, and Python is ten times faster
        return re.compile(regex)
    import re2  # noqa: PLC0415  # only expressions of users need it

    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else ""
        logger.warning("The metric %s has no progress: RE2 cannot search for its expression (%s).", name, reason)
        return None
    return pattern if pattern.groups else None


def number(text: str | None) -> float | None:
    """Return the value of the text of a group; None if it is no finite number."""
    try:
        value = float(text or "")
    except ValueError:  # a word such as "1e" or "-", or a group that took no part in the match
        return None
    return value if math.isfinite(value) and "_" not in (text or "") else None  # Python's 1_234 is no number elsewhere
