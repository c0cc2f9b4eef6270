"""Pass report: the results of a pass of the reconciler."""

from __future__ import annotations

from dataclasses import dataclass, field

from traingrid.aws.embedded_metrics import STOPPED_JOBS, SWEPT, UNREACHABLE, WAITING_LINES
from traingrid.job.state import JobState


@dataclass
class PassReport:
    """The results of one pass; lists contain names of training jobs.

    Attributes:
        recorded: Training jobs whose state was recorded; the submission's id if its Batch jobs were recorded.
        closed: Lines that ended without a training job, by the name that it would have had.
        stopped: Training jobs that the pass stopped.
        released: Ended training jobs that the pass released, so that Amazon EKS may delete them.
        unreachable: Regions and submissions that could not be processed completely, and items of the ledger and files
            that cannot be read, with the reasons. The pass skips a Region that does not answer.
        over_budget: The submissions that the pass cancelled because their budgets are reached.
        notified: The published notifications: the submission, the event and its occurrence.
        unsent: Notifications that could not be published, with the reasons. The next passes try them again.
        left: The number of lines for which there was no time; the next passes start at other lines.
        lines: The number of unfinished lines at the start of the pass, by state. A line in a service queue counts as
            Waiting, because it does not train.
        running: The number of active training jobs of the grid.
        history: The progress of the daily scan over the whole ledger; empty if none was due.
    """

    recorded: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    over_budget: list[str] = field(default_factory=list)
    notified: list[str] = field(default_factory=list)
    unsent: dict[str, str] = field(default_factory=dict)
    left: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    running: int = 0
    history: str = ""

    def counts(self) -> dict[str, float]:
        """Return the values for graphs and alarms; every pass has `SWEPT`, so that an alarm detects its absence."""
        of_clusters = {"TrainingJobsReleased": len(self.released)} if self.released else {}
        return {
            **of_clusters,
            SWEPT: 1,
            "LinesPending": self.lines.get(JobState.PENDING, 0),
            WAITING_LINES: self.lines.get(JobState.WAITING, 0),
            "LinesTraining": self.lines.get(JobState.IN_PROGRESS, 0) + self.lines.get(JobState.STOPPING, 0),
            "TrainingJobs": self.running,
            STOPPED_JOBS: len(self.stopped),
            UNREACHABLE: len(self.unreachable),
            "LinesLeft": self.left,
        }

    def measured(self) -> dict[str, float]:
        """Return the metrics for CloudWatch; for an idle grid, only those whose absence raises an alarm.

        CloudWatch charges for a metric in each hour in which it is sent, even if its value is zero
        (https://aws.amazon.com/cloudwatch/pricing/).
        """
        counts = self.counts()
        at_rest = not any(value for name, value in counts.items() if name != SWEPT)
        return {name: counts[name] for name in (SWEPT, WAITING_LINES)} if at_rest else counts

    def sentence(self) -> str:
        """Return a summary of the pass for the log."""
        effects = {"recorded": self.recorded, "closed": self.closed, "stopped": self.stopped}
        counts = ", ".join(f"{len(names)} {word}" for word, names in effects.items())
        return f"swept: {counts}, {len(self.unreachable)} unreachable, {self.left} lines left to the next pass"
