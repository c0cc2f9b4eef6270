"""Published rules: the hyperparameters and channels that AWS publishes for one algorithm, recorded in a TOML file."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

_FAMILY = re.compile(r"ml\.([a-z0-9-]+)\.")


class PublishedRules:
    """The recorded rules of an algorithm.

    Args:
        algorithm: The algorithm's name, for messages.
        path: The TOML file, which is read when it is needed.
        versions: All recorded versions, from the first to the last.
    """

    def __init__(self, algorithm: str, path: Path, versions: Sequence[str]) -> None:
        self.algorithm = algorithm
        self._path = path
        self.versions = tuple(versions)

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The tables of the file."""
        return tomllib.loads(self._path.read_text())

    def own_names(self, hyperparameters: Mapping[str, str]) -> dict[str, str]:
        """Return hyperparameters with their aliases replaced."""
        return {self._table("aliases").get(name, name): value for name, value in hyperparameters.items()}

    def hyperparameter_problem(self, hyperparameters: Mapping[str, str], version: str) -> str:
        """Return the first problem of the names and values; empty if there is none."""
        own_names = self.own_names(hyperparameters)
        for name in self.tables["required"]:
            if name not in own_names:
                return f"{name}: {self.algorithm} requires it"
        for name, value in own_names.items():
            if not self._has(name, version) or name not in self._kinds:
                return f"{name} {value}: {self.algorithm} has no hyperparameter of this name"
            if not self._accepts(name, value, version):
                return f"{name} {value}: out of range"
        return ""

    def channel_problem(self, channels: Mapping[str, Mapping[str, str]], *, parameters: bool) -> str:
        """Return the first problem of the channels in inputdataconfig.json; empty if there is none.

        Args:
            parameters: True if a content type may have parameters, such as `; label-format=multi-hot`.
        """
        rules = self.tables["channels"]
        for name, rule in rules.items():
            if rule.get("required") and name not in channels:
                return f"Missing required channel: {name}"
        for name, config in channels.items():
            if name not in rules:
                return f"Extraneous channel found: {name}"
            content_type = config.get("ContentType", self.tables.get("default_content_type", ""))
            if parameters:
                content_type = content_type.partition(";")[0].strip().lower()
            if content_type not in rules[name].get(config["TrainingInputMode"], ()):
                return f"Channel configuration for '{name}' channel is not supported: {dict(config)}"
        return ""

    def trains_on(self, instance_type: str) -> bool:
        """Return True if the algorithm supports an instance type."""
        match = _FAMILY.match(instance_type)
        return bool(match and match[1] in self.tables["families"])

    def _table(self, name: str) -> Mapping[str, Any]:
        return self.tables.get(name) or {}

    @cached_property
    def _kinds(self) -> dict[str, tuple[str, str]]:
        """The table and the interval, if any, of each hyperparameter."""
        by_interval = {
            name: (table, interval)
            for table in ("intervals", "real_intervals")
            for interval, names in self._table(table).items()
            for name in names
        }
        tables = ("words", "lists", "forms", "any_text")
        return by_interval | {name: (table, "") for table in tables for name in self._table(table)}

    def _has(self, word: str, version: str) -> bool:
        """Return True if a version has a hyperparameter, or a word of its values."""
        order = self.versions
        for words, (first, last) in self._table("versions").items():
            if word in words.split():
                since = order.index(first or order[0])
                until = order.index(last or order[-1])
                return since <= order.index(version) <= until
        return True

    def _accepts(self, name: str, value: str, version: str) -> bool:
        table, interval = self._kinds[name]
        if table == "any_text":
            return True
        if table == "forms":
            return bool(re.fullmatch(self._table("forms")[name], value))
        if interval:
            return contains(interval, value, int if table == "intervals" else float)
        words = value.split(",") if table == "lists" else [value]
        return all(self._is_word(name, word, version) for word in words)

    def _is_word(self, name: str, word: str, version: str) -> bool:
        table, _ = self._kinds[name]
        metric, at, threshold = word.partition("@")
        if name == "eval_metric" and at:
            return metric.strip() in self.tables["thresholds"] and _is_float(threshold)
        return word in self._table(table)[name] and self._has(word, version)


def contains(interval: str, value: str, parse: type[int] | type[float]) -> bool:
    """Return True if an interval, such as "(0, 1]", contains a number given as text."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    try:
        number = parse(value)
    except ValueError:
        return False
    above = number >= low if interval[0] == "[" else number > low
    return above and (number <= high if interval[-1] == "]" else number < high) and not math.isnan(number)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
