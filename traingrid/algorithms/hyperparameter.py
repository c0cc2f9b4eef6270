"""Hyperparameter: the published name, type and range of one hyperparameter, and the check of a value."""

import math
import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["integer", "number", "choice", "text"]

_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Hyperparameter:
    """One hyperparameter of an algorithm.

    Attributes:
        kind: The type; SageMaker passes every value as text.
        required: True if every job must set it.
        least: The smallest value of an integer or a number; None for no limit.
        greatest: The largest value of an integer or a number; None for no limit.
        excludes: The limits that are not values themselves: "least", "greatest" or both.
        form: The regular expression that a text matches completely; empty if any text is valid.
        example: A text of that form, for the error message.
    """

    name: str
    kind: Kind
    required: bool = False
    least: float | None = None
    greatest: float | None = None
    excludes: tuple[Literal["least", "greatest"], ...] = ()
    choices: tuple[str, ...] = ()
    form: str = ""
    example: str = ""

    @property
    def allowed(self) -> str:
        """A description of the valid values."""
        if self.kind == "choice":
            return one_of(self.choices)
        if self.kind == "text":
            return f"text such as {self.example}" if self.example else "text"
        noun = "a whole number" if self.kind == "integer" else "a number"
        return f"{noun}{self._range()}"

    def problem(self, value: str) -> str:
        """Return the reason why a value is invalid; empty if it is valid."""
        if self.kind == "choice":
            return "" if value in self.choices else self._choice_problem(value)
        if self.kind == "text":
            return "" if not self.form or re.fullmatch(self.form, value) else "does not have the required form"
        number = _number(value, self.kind)
        if number is None:
            return "must be a whole number" if self.kind == "integer" else "must be a number"
        return "" if self._contains(number) else "out of range"

    def _choice_problem(self, value: str) -> str:
        similar_choices = [choice for choice in self.choices if choice.lower() == value.lower()]
        return f'must be spelled "{similar_choices[0]}"' if similar_choices else "not a valid value"

    def _contains(self, number: float) -> bool:
        low = -math.inf if self.least is None else self.least
        high = math.inf if self.greatest is None else self.greatest
        return (
            low <= number <= high
            and not ("least" in self.excludes and number == low)
            and not ("greatest" in self.excludes and number == high)
        )

    def _range(self) -> str:
        """Return the range as the end of a sentence; empty without limits."""
        above = "greater than" if "least" in self.excludes else "of at least"
        below = "less than" if "greatest" in self.excludes else "at most"
        parts = []
        if self.least is not None:
            parts.append(f"{above} {self.least:g}")
        if self.greatest is not None:
            parts.append(f"{below} {self.greatest:.10g}")
        return f" {' and '.join(parts)}" if parts else ""


def one_of(words: tuple[str, ...]) -> str:
    """Return words as a list: "a, b or c"."""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _number(value: str, kind: Kind) -> float | None:
    if kind == "integer":
        return int(value) if _INTEGER.fullmatch(value) else None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
