"""Metrics: the regular expressions that find the values of a job's metrics in its output."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

# The parts of expressions. training_container/metric_history/line_reader.py has the same parts; a test compares them.
# They have no lookaround, because SageMaker does not document its engine, and no ambiguous repetition, so that Python's
# engine needs linear time. The characters are those of ASCII; in Python, `\w` also has letters outside ASCII.
NAME_START = r"(?:^|[^\w./-])(?:\x1b.[0-?]*[A-Za-z])*"
"""What may stand before a name: the start of the line, or a character that no metric's name has; then codes of colours,
which end with a letter (CSI sequences, 5.4 of
https://ecma-international.org/publications-and-standards/standards/ecma-48/)."""
NUMBER = r"[-+0-9.eE]*[0-9]"
"""A number, in digits only; or several ones, such as 1-2, which is none for `float`."""
WORD_END = r"[\t-&();-@{-}]"
"""A character that never joins digits: a blank, or one of !"#$%&();<=>?@{|}."""
NUMBER_END = rf"(?:$|{WORD_END}|[^\t-&()0-9;-Za-}}]+(?:$|[\t-&();-Za-}}]))"
"""What may stand after a number: the end of the line, a WORD_END, or characters that may join digits without a digit
after them: '*+,-./:[\\]^_`~ and any outside ASCII, such as no-break blanks."""
_GROUPED = r"(?:(?: \d{3})+,\d\S*)?"
"""Further groups of digits after blanks, with a decimal comma, as in 1 234,5, so that the whole is none for `float`."""
_UNIT = r"(?:[ACDFHIJLNOSU-Xacdf-jl-z]|[A-WYZa-wyz][A-Za-z]*[A-Za-hj-z])?"
"""The unit of a number, such as ms, GiB or x: a letter that multiplies no number (as k, K, M, G, T, P, E, Z, Y, R, Q, B
and b do), or a word that does not end with i (as Ki does) and begins no hexadecimal number."""


@lru_cache(maxsize=1024)
def metric_regex(name: str) -> str:
    """Return the regular expression that finds a metric printed as `name=value`.

    Its first group is the whole number as it was printed: of `1,234.5` it finds nothing, rather than 1,
    and of `1 234,5` a text that is no number.
    """
    return f"{NAME_START}{re.escape(name)}=({NUMBER}{_GROUPED}){_UNIT}{NUMBER_END}"


def shortened(metrics: dict[str, str]) -> dict[str, str]:
    """Return metrics as files store them: an empty expression means that of `metric_regex`, to save its 180 characters.

    A manifest cannot have an empty one, because SageMaker's MetricRegex has at least one character.
    """
    return {name: "" if regex == metric_regex(name) else regex for name, regex in metrics.items()}


def _completed(metrics: dict[str, str]) -> dict[str, str]:
    return {name: regex or metric_regex(name) for name, regex in metrics.items()}


Metrics = Annotated[dict[str, str], AfterValidator(_completed)]
"""The regular expression of each metric, by name. The first group is the value."""
