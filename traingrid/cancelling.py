"""Cancelling: the intent first, so that it cannot be lost; then the children; then the training jobs.

Whoever dies between these steps leaves a recorded intent behind, which every child and the reconciler act on: a child
creates nothing that is cancelled and stops what it has just created, the reconciler stops what still runs. So each step
may be done again, by anybody, and doing all of it twice is doing it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import ledger as ledgers
from traingrid.children import arrays
from traingrid.errors import TraingridError, UsageError
from traingrid.ledger import FINAL_STATES, is_cancelled
from traingrid.submitted_jobs import submitted_jobs
from traingrid.training_jobs import TrainingJobs

if TYPE_CHECKING:
    from traingrid.children import Children
    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.ledger import Ledger
    from traingrid.storage import Storage


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person wants to end.

    Attributes:
        submission: The submission.
        index: Only the job of this index.
        region: Only the jobs that train, or would train next, in this Region.
        by: Who wants it.
        reason: Why, in their words.
    """

    submission: str
    index: int | None = None
    region: str = ""
    by: str = ""
    reason: str = ""

    @property
    def scope(self) -> str:
        """Return the scope as the ledger writes it."""
        if self.index is not None:
            return ledgers.cancel_of_job(self.index)
        return ledgers.cancel_of_region(self.region) if self.region else ledgers.CANCEL_ALL

    def covers(self, index: int, region: str) -> bool:
        """Return whether a job is meant."""
        return is_cancelled({self.scope}, index, region)


@dataclass(frozen=True, kw_only=True)
class Told:
    """Who was told to end: Batch jobs (arrays or children) and training jobs."""

    batch_jobs: list[str]
    training_jobs: list[str]


@dataclass(frozen=True, kw_only=True)
class Canceller:
    """Cancels jobs of a deployment.

    Attributes:
        deployment: The grid.
        ledger: Where the intent is recorded.
        children: Who ends children.
        storage: Where a submission's lines lie.
    """

    deployment: Deployment
    ledger: Ledger
    children: Children
    storage: Storage

    def cancel(self, wanted: Wanted) -> Told:
        """Record the intent and end what is meant by it.

        Raises:
            TraingridError: There is no such submission.
            UsageError: It has no such job, or the grid no such Region.
        """
        head = self._checked(wanted)
        self.ledger.request_cancel(wanted.submission, wanted.scope, {"by": wanted.by, "reason": wanted.reason})
        told = self._batch_jobs(head, wanted)
        why = f"Cancelled by {wanted.by}" + (f": {wanted.reason}" if wanted.reason else "")
        for job in told:
            self.children.terminate(job, why)
        return Told(batch_jobs=told, training_jobs=list(self._stopped(wanted)))

    def _checked(self, wanted: Wanted) -> Item:
        head = self.ledger.submission(wanted.submission)
        if head is None:
            text = f"There is no submission {wanted.submission}."
            raise TraingridError(text, "`traingrid status` lists those there are.")
        if wanted.index is not None and wanted.index >= head["jobs"]:
            text = f"Submission {wanted.submission} has no job of index {wanted.index}."
            raise UsageError(text, f"Its indices are 0 to {head['jobs'] - 1}.")
        if wanted.region and wanted.region not in self.deployment.grid.regions:
            text = f"{wanted.region} is not a training Region of this grid."
            raise UsageError(text, f"It has {', '.join(self.deployment.grid.regions)}.")
        return head

    def _batch_jobs(self, head: Item, wanted: Wanted) -> list[str]:
        """Return the arrays of a whole submission, or the children of the jobs that are meant."""
        if wanted.scope == ledgers.CANCEL_ALL:
            return [array["batch_job"] for array in arrays(head)]
        items = {int(i["item"].partition("#")[2]): i for i in self.ledger.items(wanted.submission) if "#" in i["item"]}
        regions = {index: item["region"] for index, item in items.items()}
        if wanted.region and len(items) < head["jobs"]:
            regions = self._regions(head) | regions
        ids = self.children.ids(head)
        meant = [index for index in sorted(ids) if wanted.covers(index, regions.get(index, ""))]
        live = [index for index in meant if items.get(index, {}).get("state") not in FINAL_STATES]
        return [
            child for index in live for child in {ids[index], items.get(index, {}).get("batch_child") or ids[index]}
        ]

    def _regions(self, head: Item) -> dict[int, str]:
        """Return the Regions of all jobs as they were submitted."""
        bucket = self.deployment.manifest_bucket
        return {job.index: job.region for job in submitted_jobs(self.storage, bucket, head)}

    def _stopped(self, wanted: Wanted) -> list[str]:
        stopped = []
        for name in [wanted.region] if wanted.region else self.deployment.grid.regions:
            region = TrainingJobs(self.deployment.grid.name, name)
            for job in region.listed(state="InProgress", submission=wanted.submission):
                if not wanted.covers(job.identity.index, name):
                    continue
                if region.is_ours(job, self.ledger.job(*job.line)) and region.stop(job.name):
                    stopped.append(job.name)
        return stopped
