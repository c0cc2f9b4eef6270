"""Open lines: finds a grid's unfinished lines, including those that no child has opened, and their possible Regions."""

from collections.abc import Iterator
from dataclasses import dataclass

from traingrid.aws.s3 import Storage
from traingrid.ledger.damage import Damaged
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submissions import SubmissionState, group_by_submission
from traingrid.submission.submitted_jobs import written_jobs


@dataclass(frozen=True, kw_only=True)
class OpenLine:
    """A line that has not ended.

    Attributes:
        regions: The Regions in which it trains or may train next: without capacity, a line moves to the next Region of
            its data, cyclically. Empty if they are unknown: until a child starts, or because its item or line is
            damaged.
    """

    submission: str
    regions: frozenset[str]

    def may_be_in(self, region: str) -> bool:
        """Return True if the line trains in a Region or may still move there."""
        return not self.regions or region in self.regions


@dataclass(frozen=True, kw_only=True)
class OpenLines:
    """Finds the lines that have not ended."""

    ledger: Ledger
    storage: Storage
    bucket: str

    def find(self) -> Iterator[OpenLine]:
        """Yield every line that has not ended, by consistent reads of the submissions with open work."""
        for name, submission in group_by_submission(self.ledger.open_items()).items():
            for item in submission.live.values():
                regions = frozenset({item.region, *item.regions})
                yield OpenLine(submission=name, regions=regions)
            for _ in submission.damaged:  # its state is unknown, so it may be open
                yield OpenLine(submission=name, regions=frozenset())
            yield from self._unopened(submission)

    def _unopened(self, submission: SubmissionState) -> Iterator[OpenLine]:
        """Yield the lines that no child has opened: their array is waiting, or the intake is submitting it."""
        submission_item = submission.head
        if submission_item is None or len(submission.opened) >= submission_item.jobs:
            return
        for job in written_jobs(self.storage, self.bucket, submission_item):
            if isinstance(job, Damaged):
                if job.index not in submission.opened:
                    yield OpenLine(submission=submission_item.submission, regions=frozenset())
            elif job.index not in submission.opened:
                yield OpenLine(submission=submission_item.submission, regions=frozenset(job.regions))
