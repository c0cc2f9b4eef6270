"""Which lines of a grid have not ended, and where each may still train: also those that no child has opened yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.job import Job
from traingrid.s3_uri import S3Uri
from traingrid.submission import chunks, jobs_key
from traingrid.sweep import by_submission
from traingrid.world import GONE, is_by_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traingrid.dynamodb import Item
    from traingrid.ledger import Ledger
    from traingrid.storage import Storage
    from traingrid.sweep import Submission


@dataclass(frozen=True, kw_only=True)
class OpenLine:
    """A line that has not ended.

    Attributes:
        submission: Its submission.
        regions: Where it trains, or may train next: a line without capacity goes on in the next Region of its data, and
            round again. Empty where only a child that has yet to begin will know.
    """

    submission: str
    regions: frozenset[str]

    def may_be_in(self, region: str) -> bool:
        """Return whether the line trains in a Region, or may still go there."""
        return not self.regions or region in self.regions


@dataclass(frozen=True, kw_only=True)
class OpenLines:
    """Finds the lines that have not ended.

    Attributes:
        ledger: The ledger.
        storage: Where the submissions lie.
        bucket: The manifest bucket.
        batch_status: Gives Batch's status of a job by its id; empty for one that Batch has forgotten.
    """

    ledger: Ledger
    storage: Storage
    bucket: str
    batch_status: Callable[[str], str]

    def find(self) -> Iterator[OpenLine]:
        """Yield every line that has not ended, of every submission."""
        for name, submission in by_submission(self.ledger.everything()).items():
            for item in submission.live.values():
                regions = frozenset({item["region"], *item.get("regions", ())})
                yield OpenLine(submission=name, regions=regions)
            yield from self._unopened(submission)

    def _unopened(self, submission: Submission) -> Iterator[OpenLine]:
        """Yield the lines that no child has opened: of an array that waits, or that the intake is just submitting."""
        head = submission.head
        if head is None or len(submission.opened) >= head["jobs"]:
            return
        if is_by_hand(head):
            if self.batch_status(head["batch_job"]) not in (*GONE, ""):
                for _ in range(head["jobs"] - len(submission.opened)):
                    yield OpenLine(submission=head["submission"], regions=frozenset())
            return
        for job in self._jobs(head):
            if job.index not in submission.opened:
                yield OpenLine(submission=head["submission"], regions=frozenset(job.regions))

    def _jobs(self, head: Item) -> Iterator[Job]:
        for chunk in range(len(chunks(head["jobs"]))):
            uri = S3Uri(self.bucket, jobs_key(head["submission"], chunk))
            yield from map(Job.model_validate_json, (self.storage.read_if_exists(uri) or b"").splitlines())
