"""Ledger submissions: the ledger's items grouped by submission."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.ledger.ledger import FINAL_STATES, SUBMISSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.aws.dynamodb import Item


@dataclass
class Submission:
    """The data of a submission that a sweep uses; for ended lines, only the index."""

    head: Item | None = None
    live: dict[int, Item] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)
    cancels: dict[str, Item] = field(default_factory=dict)

    @property
    def unopened(self) -> set[int]:
        """The lines that no child has opened yet."""
        return set(range(self.head["jobs"])) - self.opened if self.head and self.head["state"] == "Submitted" else set()


def by_submission(items: Iterable[Item]) -> dict[str, Submission]:
    """Group the ledger's items by submission; an unknown id has an empty submission."""
    found: dict[str, Submission] = defaultdict(Submission)
    for item in items:
        submission, (kind, _, rest) = found[item["submission"]], item["item"].partition("#")
        if item["item"] == SUBMISSION:
            submission.head = item
        elif kind == "cancel":
            submission.cancels[rest] = item
        elif kind == "job":
            submission.opened.add(int(rest))
            if item["state"] not in FINAL_STATES:
                submission.live[int(rest)] = item
    return found
