"""xgboost container: the hyperparameters that AWS's container accepts, by the record in xgboost_container.toml."""

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

VERSIONS = ("1.2-1", "1.2-2", "1.3-1", "1.5-1", "1.7-1", "3.0-5", "3.2-0")
"""The recorded versions."""


def problem(hyperparameters: Mapping[str, str], version: str) -> str:
    """Return the first problem for which the container refuses hyperparameters; empty if it accepts them."""
    own_names = {record()["aliases"].get(name, name): value for name, value in hyperparameters.items()}
    for name in record()["required"]:
        if name not in own_names:
            return f"{name}: xgboost requires it"
    for name, value in own_names.items():
        if not _has(name, version) or name not in _kinds():
            return f"{name} {value}: xgboost has no hyperparameter of this name"
        if not _accepts(name, value, version):
            return f"{name} {value}: out of range"
    return ""


@cache
def record() -> dict[str, Any]:
    """Return the record."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


@cache
def _kinds() -> dict[str, tuple[str, str]]:
    """Return the table and the interval, if any, of each hyperparameter."""
    tables = record()
    by_interval = {
        name: (table, interval)
        for table in ("intervals", "real_intervals")
        for interval, names in tables[table].items()
        for name in names
    }
    by_words = {name: (table, "") for table in ("words", "lists", "any_text") for name in tables[table]}
    return by_interval | by_words


def _has(word: str, version: str) -> bool:
    """Return True if a version has a hyperparameter, or a word of its values."""
    for words, (first, last) in record()["versions"].items():
        if word in words.split():
            since, until = VERSIONS.index(first or VERSIONS[0]), VERSIONS.index(last or VERSIONS[-1])
            return since <= VERSIONS.index(version) <= until
    return True


def _accepts(name: str, value: str, version: str) -> bool:
    table, interval = _kinds()[name]
    if table == "any_text":
        return True
    if interval:
        return _contains(interval, value, int if table == "intervals" else float)
    words = value.split(",") if table == "lists" else [value]
    return all(_is_word(name, word, version) for word in words)


def _is_word(name: str, word: str, version: str) -> bool:
    table, _ = _kinds()[name]
    metric, at, threshold = word.partition("@")
    if name == "eval_metric" and at:
        return metric.strip() in record()["thresholds"] and _contains("(-inf, inf)", threshold, float)
    return word in record()[table][name] and _has(word, version)


def _contains(interval: str, value: str, parse: type[int] | type[float]) -> bool:
    low, high = (float(end) for end in interval[1:-1].split(","))
    try:
        number = parse(value)
    except ValueError:
        return False
    above = number >= low if interval[0] == "[" else number > low
    return above and (number <= high if interval[-1] == "]" else number < high) and not math.isnan(number)
