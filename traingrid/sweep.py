"""What a sweep of the reconciler needs of the ledger, and what it has done."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.embedded_metrics import STOPPED_JOBS, SWEPT, UNREACHABLE, WAITING_LINES
from traingrid.ledger import FINAL_STATES, PENDING, SUBMISSION, WAITING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.dynamodb import Item


@dataclass
class Sweep:
    """What one sweep has done, each by the names of training jobs.

    Attributes:
        recorded: Seen in SageMaker and written down; a submission's own id where its Batch jobs were.
        closed: Lines that have ended without a training job, by the name that it would have had.
        stopped: Training jobs told to stop.
        unreachable: Regions and submissions with which not everything could be done, and why. A Region that did not
            answer was left alone.
        left: How many lines there was no time to look at; the next sweeps begin elsewhere.
        lines: How many lines have not ended, by state, as the sweep has found them; one that waits in a service queue
            is Waiting here, because nothing of it trains.
        running: How many training jobs of the grid run.
    """

    recorded: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    left: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    running: int = 0

    def counts(self) -> dict[str, float]:
        """Return what is worth a graph or an alarm; `SWEPT` is there in every one, so its absence is an alarm too."""
        return {
            SWEPT: 1,
            "LinesPending": self.lines.get(PENDING, 0),
            WAITING_LINES: self.lines.get(WAITING, 0),
            "LinesTraining": self.lines.get("InProgress", 0) + self.lines.get("Stopping", 0),
            "TrainingJobs": self.running,
            STOPPED_JOBS: len(self.stopped),
            UNREACHABLE: len(self.unreachable),
            "LinesLeft": self.left,
        }

    def measured(self) -> dict[str, float]:
        """Return what is sent to CloudWatch: of a grid at rest only what alarms miss when it is not there.

        A metric is paid for in the hours in which it is sent, zero or not (https://aws.amazon.com/cloudwatch/pricing/).
        """
        counts = self.counts()
        at_rest = not any(value for name, value in counts.items() if name != SWEPT)
        return {name: counts[name] for name in (SWEPT, WAITING_LINES)} if at_rest else counts

    def sentence(self) -> str:
        """Return what it has done, for the person who reads its log."""
        done = {"recorded": self.recorded, "closed": self.closed, "stopped": self.stopped}
        said = ", ".join(f"{len(what)} {word}" for word, what in done.items())
        return f"swept: {said}, {len(self.unreachable)} unreachable, {self.left} lines left to the next sweep"


@dataclass
class Submission:
    """A submission as a sweep needs it: of the lines that have ended only the index."""

    head: Item | None = None
    live: dict[int, Item] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)
    cancels: dict[str, Item] = field(default_factory=dict)

    @property
    def unopened(self) -> set[int]:
        """The lines that no child has opened yet."""
        return set(range(self.head["jobs"])) - self.opened if self.head and self.head["state"] == "Submitted" else set()


def by_submission(items: Iterable[Item]) -> dict[str, Submission]:
    """Sort the ledger's items by submission; of one that has none the answer is an empty one."""
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
