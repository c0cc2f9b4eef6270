"""Metrics: the regular expressions that find the values of a job's metrics in its output."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

# What follows a number: the end of the line; an ASCII character that no number has; one that separates digits in
# numbers (,'_ and any outside ASCII, such as no-break blanks) without a digit after it; the first letter of a unit such
# as GB, but not k, M, G or T alone, which multiply the number; or an x that begins no hexadecimal number. It has no
# lookahead, because SageMaker does not document its engine.
_END_OF_NUMBER = (
    r"(?:$|[\t-&(-*/:-DFH-JLN-SU-WYZ[-^`a-df-jl-wyz-~]|[^\t-&(-+\--^`-~](?:$|[^0-9])"
    r"|[kKMGT][A-Za-z]|[xX](?:$|[^0-9A-Fa-f]))"
)


@lru_cache(maxsize=1024)
def metric_regex(name: str) -> str:
    """Return the regular expression that finds a metric printed as `name=value`.

    Its first group is the whole number as it was printed: of `1,234.5` it finds nothing, rather than 1.
    """
    return rf"\b{re.escape(name)}=([-+0-9.eE]+){_END_OF_NUMBER}"


def shortened(metrics: dict[str, str]) -> dict[str, str]:
    """Return metrics as files store them: an empty expression means that of `metric_regex`, to save its 190 characters.

    A manifest cannot have an empty one, because SageMaker's MetricRegex has at least one character.
    """
    return {name: "" if regex == metric_regex(name) else regex for name, regex in metrics.items()}


def _completed(metrics: dict[str, str]) -> dict[str, str]:
    return {name: regex or metric_regex(name) for name, regex in metrics.items()}


Metrics = Annotated[dict[str, str], AfterValidator(_completed)]
"""The regular expression of each metric, by name. The first group is the value."""
