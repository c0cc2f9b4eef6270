"""Profiled steps: the steps of which a line wants a profile (`profile`), from an environment variable of the job."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from training_container.contract.training_job import ContractError

VARIABLE = "TRAINGRID_PROFILE"
_FORM = re.compile(r"([1-9]\d{0,8})-([1-9]\d{0,8})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ProfiledSteps:
    """A range of steps of the whole training; the first step has number 1."""

    first: int
    last: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Return the steps, or None if the job writes no profile.

        Raises:
            ContractError: The variable has another form than FIRST-LAST.
        """
        text = environment.get(VARIABLE, "")
        if not text:
            return None
        match = _FORM.fullmatch(text)
        if match is None or int(match[2]) < int(match[1]):
            raise ContractError(f"The variable {VARIABLE} is {text!r}; it must be FIRST-LAST, for example 100-110.")
        return cls(first=int(match[1]), last=int(match[2]))

    def __contains__(self, step: int) -> bool:
        """Return True if a step is profiled."""
        return self.first <= step <= self.last
