"""Config fields: declares hyperparameters, and converts their text to values. Does not import TensorFlow."""

import dataclasses
import difflib
import math
from collections.abc import Iterable
from dataclasses import field
from typing import Any


class HyperparameterError(ValueError):
    """Hyperparameters are unknown or out of range. The text has a line for each."""


def number(default: float, low: float, high: float, what: str) -> Any:
    """Declare an int or float between `low` and `high`."""
    return field(default=default, metadata={"low": low, "high": high, "what": what})


def choice(default: str, options: tuple[str, ...], what: str) -> Any:
    """Declare a word that must be one of `options`."""
    return field(default=default, metadata={"options": options, "what": what})


def switch(default: bool, what: str) -> Any:
    """Declare a boolean."""
    return field(default=default, metadata={"what": what})


def text(prefix: str, what: str) -> Any:
    """Declare a text that must be empty or begin with `prefix`."""
    return field(default="", metadata={"prefix": prefix, "what": what})


def parsed(entry: dataclasses.Field[Any], given: str) -> object:
    """Return the value of a field.

    Raises:
        ValueError: The text is invalid for the field. The message describes valid values.
    """
    if entry.type is bool:
        return _boolean(entry.name, given)
    if entry.type is str:
        return _word(entry, given)
    low, high = entry.metadata["low"], entry.metadata["high"]
    kind = "a whole number" if entry.type is int else "a number"
    try:
        value = int(given) if entry.type is int else float(given)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ValueError(f"Hyperparameter {entry.name!r} is {given!r}; it must be {kind} from {low:g} to {high:g}.")
    return value


def unknown(name: str, names: Iterable[str]) -> ValueError:
    """Return the error for an unknown name, with the most similar known name."""
    known = list(names)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"There are: {', '.join(known)}."
    return ValueError(f"Hyperparameter {name!r} is unknown. {hint}")


def _word(entry: dataclasses.Field[Any], given: str) -> str:
    options, prefix = entry.metadata.get("options"), entry.metadata.get("prefix", "")
    if options and given not in options:
        raise ValueError(f"Hyperparameter {entry.name!r} is {given!r}; it must be one of: {', '.join(options)}.")
    if given and not given.startswith(prefix):
        raise ValueError(f"Hyperparameter {entry.name!r} is {given!r}; it must begin with {prefix!r} or be empty.")
    return given


def _boolean(name: str, given: str) -> bool:
    if given.lower() not in ("true", "false"):
        raise ValueError(f"Hyperparameter {name!r} is {given!r}; it must be true or false.")
    return given.lower() == "true"
