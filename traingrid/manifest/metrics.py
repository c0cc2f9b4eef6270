"""Metrics of a line: reads names, or names with the regular expressions that find their values."""

from __future__ import annotations

import json
import re

from traingrid.job.metrics import metric_regex
from traingrid.manifest.limits import most
from traingrid.manifest.problem import RefusedError, literal
from traingrid.manifest.values import text

_METRIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,254}")


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


def _hashable(value: object) -> object:
    return value if isinstance(value, str) else json.dumps(value, default=str)
