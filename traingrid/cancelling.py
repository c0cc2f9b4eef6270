"""Cancelling: the intent first, so that it cannot be lost; then what costs money; then the children.

Whoever dies between these steps leaves a recorded intent behind, which every child and the reconciler act on: a child
creates nothing that is cancelled and stops what it has just created, the reconciler stops what still runs. So each step
may be done again, by anybody, and doing all of it twice is doing it once.

Training jobs can be stopped before the children are ended because of that: a child whose training job is stopped reads
the intent before it would go on to another attempt, and goes on to none. What a child creates after our look it has
asked for before it could read the intent; it reads it right after the creation, and stops it. Only one that we have
ended in between does not. So when the children are ended we look once more.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import ledger as ledgers
from traingrid.children import arrays
from traingrid.errors import TraingridError, UsageError
from traingrid.ledger import FINAL_STATES, index_of, is_cancelled
from traingrid.queued_jobs import training_jobs_in
from traingrid.submitted_jobs import submitted_jobs
from traingrid.world import elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.children import Children
    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.ledger import Ledger
    from traingrid.storage import Storage

_MOST_ERRORS = 20
"""After so many of one service the rest is left to the reconciler: where it cannot be reached, each takes minutes."""


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
    """Who was told to end.

    Attributes:
        batch_jobs: Batch jobs: arrays or children.
        training_jobs: Training jobs, by name.
        errors: Why others could not be told so, by what was asked for: a Region, a training job, a Batch job.
    """

    batch_jobs: list[str] = field(default_factory=list)
    training_jobs: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Keep the error of something that others bring to its end as well; forget it if it goes well later."""
        try:
            yield
        except (TraingridError, BotoCoreError, ClientError) as error:
            self.errors[what] = str(error)
        else:
            self.errors.pop(what, None)


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
        return self.end(self.record(wanted), wanted)

    def record(self, wanted: Wanted) -> Item:
        """Record the intent, and return the submission's own item. From then on all that is meant ends, by whomever.

        Raises:
            TraingridError: There is no such submission.
            UsageError: It has no such job, or the grid no such Region.
        """
        head = self._checked(wanted)
        self.ledger.request_cancel(wanted.submission, wanted.scope, {"by": wanted.by, "reason": wanted.reason})
        return head

    def end(self, head: Item, wanted: Wanted) -> Told:
        """End what is meant by a recorded intent, as far as AWS lets us; what is left is in the answer."""
        told = Told()
        self._stop(wanted, told)
        self._terminate(head, wanted, told)
        self._stop(wanted, told)
        return told

    def _checked(self, wanted: Wanted) -> Item:
        head = self.ledger.submission(wanted.submission)
        if head is None:
            text = f"There is no submission {wanted.submission}."
            raise UsageError(text, "`traingrid status` lists those there are.")
        if wanted.index is not None and wanted.index >= head["jobs"]:
            text = f"Submission {wanted.submission} has no job of index {wanted.index}."
            raise UsageError(text, f"Its indices are 0 to {head['jobs'] - 1}.")
        if wanted.region and wanted.region not in self._regions_of_lines(wanted.submission):
            text = f"{wanted.region} is not a training Region of this grid."
            raise UsageError(text, f"It has {', '.join(self.deployment.grid.regions)}.")
        return head

    def _batch_jobs(self, head: Item, wanted: Wanted) -> list[str]:
        """Return the arrays of a whole submission, or the children of the jobs that are meant."""
        if wanted.scope == ledgers.CANCEL_ALL:
            return [array["batch_job"] for array in arrays(head)]
        items = {index_of(item): item for item in self.ledger.jobs(wanted.submission)}
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

    def _regions_of_lines(self, submission: str) -> list[str]:
        """Return the Regions of the grid, and those that it has no more though lines of a submission live there."""
        live = (item for item in self.ledger.jobs(submission) if item["state"] not in FINAL_STATES)
        return [*self.deployment.grid.regions, *elsewhere(live, self.deployment.grid.regions)]

    def _terminate(self, head: Item, wanted: Wanted, told: Told) -> None:
        why = f"Cancelled by {wanted.by}" + (f": {wanted.reason}" if wanted.reason else "")
        most = len(told.errors) + _MOST_ERRORS
        with told.noting("the children"):
            for job in self._batch_jobs(head, wanted):
                if len(told.errors) >= most:
                    return
                with told.noting(f"Batch job {job}"):
                    self.children.terminate(job, why)
                    told.batch_jobs.append(job)

    def _stop(self, wanted: Wanted, told: Told) -> None:
        for name in [wanted.region] if wanted.region else self._regions_of_lines(wanted.submission):
            region, most = training_jobs_in(self.deployment, name), len(told.errors) + _MOST_ERRORS
            with told.noting(name):
                for job in region.listed(state="InProgress", submission=wanted.submission):
                    if len(told.errors) >= most:
                        break
                    if wanted.covers(job.identity.index, name) and job.name not in told.training_jobs:
                        with told.noting(job.name):
                            if region.is_ours(job, self.ledger.job(*job.line)) and region.stop(job.name):
                                told.training_jobs.append(job.name)
