"""What the audit finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["duplicate", "orphan", "lost", "other"]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """Something that must not be.

    Attributes:
        invariant: Which one is broken: I1 to I7 of `traingrid.audit`.
        kind: What it counts as.
        submission: The submission concerned; empty where it is unknown.
        what: What was found and where, as a sentence.
    """

    invariant: str
    kind: Kind
    submission: str
    what: str

    def __str__(self) -> str:
        """Return it as a line of a report."""
        return f"{self.invariant} {self.kind}: {self.what}"
