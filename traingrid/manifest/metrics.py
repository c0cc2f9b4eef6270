"""Metrics: reads the metrics of a line, with the regular expressions that find their values."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from traingrid.manifest.limits import most
from traingrid.manifest.problem import RefusedError, literal
from traingrid.manifest.values import text

_METRIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,254}")
# What follows a number: the end of the line; an ASCII character that no number has; one that separates digits in
# numbers (,'_ and any outside ASCII, such as no-break blanks) without a digit after it; the first letter of a unit such
# as GB, but not k, M, G or T alone, which multiply the number; or an x that begins no hexadecimal number. It has no
# lookahead, because SageMaker does not document its engine.
_END_OF_NUMBER = (
    r"(?:$|[\t-&(-*/:-DFH-JLN-SU-WYZ[-^`a-df-jl-wyz-~]|[^\t-&(-+\--^`-~](?:$|[^0-9])"
    r"|[kKMGT][A-Za-z]|[xX](?:$|[^0-9A-Fa-f]))"
)


def metrics(value: object) -> dict[str, str]:
    """Return metrics with their regular expressions, from names separated by spaces, a list or a mapping."""
    next_step = 'Write names such as "train_loss validation_top1", or {"name": "regular expression"} in JSON Lines.'
    if isinstance(value, str):
        value = value.split()
    if isinstance(value, list):
        value = {name: metric_regex(name) if isinstance(name, str) else "" for name in map(_hashable, value)}
    if not isinstance(value, dict) or not value:
        raise RefusedError("must name at least one metric", next_step)
    if len(value) > most("MetricDefinitionList"):
        raise RefusedError(f"SageMaker allows at most {most('MetricDefinitionList')} metrics", next_step)
    for name, regex in value.items():
        if not isinstance(name, str) or not _METRIC_NAME.fullmatch(name):
            raise RefusedError(f"{literal(name)} is not a valid metric name", next_step)
        text(regex, "MetricRegex", f"Give {name} a regular expression.")
        try:
            groups = re.compile(regex).groups
        except (re.error, RecursionError, OverflowError) as error:
            raise RefusedError(f"{literal(regex)} is not a regular expression ({error})", next_step) from None
        if groups < 1:
            raise RefusedError(f"{literal(regex)} has no group for the value", "Put the number in (…).")
    return value


@lru_cache(maxsize=1024)
def metric_regex(name: str) -> str:
    """Return the regular expression that finds a metric printed as `name=value`.

    Its first group is the whole number as it was printed: of `1,234.5` it finds nothing, rather than 1.
    """
    return rf"\b{re.escape(name)}=([-+0-9.eE]+){_END_OF_NUMBER}"


def _hashable(value: object) -> object:
    return value if isinstance(value, str) else json.dumps(value, default=str)
