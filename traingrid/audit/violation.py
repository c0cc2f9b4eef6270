"""Violations: the findings of the audit."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["duplicate", "orphan", "lost", "other"]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A violated invariant.

    Attributes:
        invariant: The invariant: I1 to I7 of `traingrid.audit.audit`.
        kind: The category in which the violation is counted.
        submission: The affected submission; empty if unknown.
        what: A sentence that describes the violation and its place.
    """

    invariant: str
    kind: Kind
    submission: str
    what: str

    def __str__(self) -> str:
        """Return the violation as a line of a report."""
        return f"{self.invariant} {self.kind}: {self.what}"
