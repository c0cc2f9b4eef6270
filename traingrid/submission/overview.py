"""Overview: the number of jobs in each state, and the running and failed jobs, of a submission of any size."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.job.state import FINAL_STATES, UNLAUNCHED_STATES, JobState
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.user_requests import cancel_of
from traingrid.submission.status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.ledger.job_states import RecordedState
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.user_requests import Cancel


@dataclass(frozen=True, kw_only=True)
class SubmissionOverview:
    """The numbers of a submission's jobs, and its running and failed jobs.

    The states may lack changes of the last moments.

    Attributes:
        submission: The submission's id.
        manifest: The S3 URI of the manifest.
        total: The number of jobs.
        states: The number of jobs in each state, by Region.
        unopened: The number of jobs that no child has opened. Their Region is not known.
        failures: The number of failed jobs of each failure class.
        running: The jobs with a training job that has not ended, without their metrics and dollars.
        failed: The failed jobs, without their metrics and dollars.
        damaged: The items of jobs that cannot be read.
    """

    submission: str
    manifest: str
    total: int
    states: Mapping[str, Mapping[JobState, int]]
    unopened: int
    failures: Mapping[str, int]
    running: list[JobStatus]
    failed: list[JobStatus]
    damaged: list[Damaged]

    @property
    def ended(self) -> bool:
        """True if every job has ended."""
        states = {state for counts in self.states.values() for state in counts}
        return self.unopened == 0 and not self.damaged and states <= FINAL_STATES


def submission_overview(submission_item: SubmissionItem, ledger: Ledger) -> SubmissionOverview:
    """Return the overview of a submission. It only reads the ledger, and neither metrics nor lines."""
    cancels = ledger.cancels(submission_item.submission)
    states: dict[str, Counter[JobState]] = defaultdict(Counter)
    failures: Counter[str] = Counter()
    running, failed = [], []
    damaged = list[Damaged]()
    for job in readable(ledger.job_states(submission_item.submission), damaged.append):
        states[job.region][job.state] += 1
        if job.state == JobState.FAILED:
            failures[job.failure] += 1
            failed.append(_job_status(job, cancels))
        elif job.state not in FINAL_STATES | UNLAUNCHED_STATES:
            running.append(_job_status(job, cancels))
    return SubmissionOverview(
        submission=submission_item.submission,
        manifest=submission_item.manifest,
        total=submission_item.jobs,
        states={region: dict(states[region]) for region in sorted(states)},
        unopened=max(submission_item.jobs - len(damaged) - sum(counts.total() for counts in states.values()), 0),
        failures=dict(failures.most_common()),
        running=running,
        failed=failed,
        damaged=damaged,
    )


def _job_status(recorded: RecordedState, cancels: Mapping[str, Cancel]) -> JobStatus:
    return JobStatus(
        index=recorded.index,
        region=recorded.region,
        name=recorded.name,
        state=recorded.state,
        phase=recorded.phase,
        attempt=recorded.attempt,
        reason=recorded.reason,
        epochs=recorded.epochs,
        started_at=recorded.training_started_at,
        seconds=recorded.training_seconds,
        cancelled=cancel_of(cancels, recorded.index, recorded.region) is not None,
    )
