"""Data copy: copies the data of a job into its Region, before its training job is created.

The ledger's item of the copy lets only one child copy a folder. Another child waits while the item changes, and takes
over when it has not changed for `STALE_SECONDS` by its clock, or at once if the first one was cancelled and has
recorded that. Correctness does not depend on this: two children that copy at once write the same objects, and each
verifies all of them before it launches. A copy whose objects are being deleted (`traingrid.audit.prune`) is never taken
over, because no time proves that the deletion has ended. A child whose item cannot be read waits until it is restored,
because it cannot know if the objects are being deleted.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.aws.s3_copy import CopyStore, PatientCopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.job.failures import COPY, PERMISSION, STOPPED_BY_USER
from traingrid.job.state import JobState
from traingrid.ledger.errors import ItemError
from traingrid.ledger.moves import MoveItem, Moves, PatientMoves
from traingrid.ledger.timestamps import now
from traingrid.text import byte_size, counted
from traingrid.transfers.errors import MoveError
from traingrid.transfers.folder_copy import FolderCopy, verification_sentence
from traingrid.transfers.listing import Folders
from traingrid.transfers.object_copy import ObjectCopy

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.child.attempt import Attempt
    from traingrid.grid.deployment import Deployment
    from traingrid.job.failures import Failure
    from traingrid.transfers.listing import Survey

logger = logging.getLogger(__name__)
LOOK_SECONDS = 5.0
"""The interval at which a child that copies writes its progress and checks for a cancel and a pause."""
WAIT_SECONDS = 15.0
"""The interval at which a child that waits for another child's copy reads that progress; many may wait for one."""
STALE_SECONDS = 120.0
"""The time without a change after which another child takes over a copy."""
_DENIED = PERMISSION_CODES | {"403"}
_WRONG = {"NoSuchBucket", "InvalidObjectState"}
_PRUNING = (
    "Waits until `traingrid data prune` has removed an earlier copy, to copy the data again. If that command was "
    "interrupted, run it again"
)
Outcome = Literal["verified", "over", "again"]
"""All objects are verified; or the ledger has a final state of the attempt; or another child took the copy over."""


def data_copy(attempt: Attempt, deployment: Deployment) -> DataCopy:
    """Return the copy of an attempt's data, whose calls wait out an outage of AWS."""
    job = attempt.job
    source, target = S3Uri.parse(job.copy_from), S3Uri.parse(job.copy_to)
    from_region = deployment.bucket_regions().get(source.bucket, "")
    if not from_region or not deployment.grid.moves:
        text = f"{source} cannot be copied: it is not in a data bucket of this grid, or `moves` is not set."
        raise UsageError(text, "Write `moves: true` in grid.yaml, deploy, and retry the line.")
    if not deployment.grid.may_hold(job.region, from_region):
        areas = ", ".join(deployment.grid.regions[from_region].residency)
        text = f"{source} cannot be copied to {job.region}: grid.yaml allows the data of {from_region} only in {areas}."
        raise UsageError(text, f"Submit a line that trains in {from_region}, or change `residency` there and deploy.")
    return copy_of(attempt, deployment, CopyOrder(source=source, target=target, from_region=from_region))


@dataclass(frozen=True, kw_only=True)
class CopyOrder:
    """The data to copy.

    Attributes:
        target: The folder that it is copied to, in the Region of the attempt.
        names: The names of the objects to copy; empty to copy all objects.
        last: The names of those that are copied after all others.
        max_bytes: The maximum size; 0 for any size.
    """

    source: S3Uri
    target: S3Uri
    from_region: str
    names: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()
    max_bytes: int = 0


def copy_of(attempt: Attempt, deployment: Deployment, order: CopyOrder) -> DataCopy:
    """Return a copy into the Region of an attempt, whose calls wait out an outage of AWS."""
    home = deployment.grid.home
    folders = Folders(
        source=order.source,
        source_store=store_of(order.from_region),
        target=order.target,
        target_store=store_of(attempt.job.region),
        names=order.names,
        last=order.last,
        max_bytes=order.max_bytes,
    )
    has_kms = deployment.grid.encryption.kind != "s3"
    objects = ObjectCopy(source_store=folders.source_store, target_store=folders.target_store, target_has_kms=has_kms)
    return DataCopy(
        attempt=attempt,
        moves=PatientMoves(lambda: Moves(deployment.table, home), home),
        folders=folders,
        from_region=order.from_region,
        begin=lambda: FolderCopy(folders=folders, objects=objects),
    )


def store_of(region: str) -> CopyStore:
    """Return the store of a Region, whose calls wait out an outage."""
    return PatientCopyStore(partial(CopyStore, region), region)


@dataclass(kw_only=True)
class DataCopy:
    """Copies the data of one attempt.

    Attributes:
        folders: The folders, and the stores of their Regions.
        begin: Returns a new copy of the folders.
        on_failure: Called instead of recording that the job has failed; returns the result of `run`. None to record it.
    """

    attempt: Attempt
    moves: Moves
    folders: Folders
    from_region: str
    begin: Callable[[], FolderCopy]
    on_failure: Callable[[Failure, str], bool] | None = None
    _reason: str = ""

    def run(self) -> bool:
        """Copy the data, or wait until another child has copied it.

        Returns:
            True if every object of the target is verified. False if the attempt is over: cancelled, failed, or
            continued by another process.

        Raises:
            BotoCoreError: S3 or the ledger cannot be used, for a reason that waiting does not remove.
            ClientError: The same.
        """
        outcome: Outcome = "again"
        try:
            while outcome == "again":
                try:
                    outcome = self._try()
                except ItemError as error:
                    outcome = self._wait_for_repair(error)
        except MoveError as error:
            return self._fail(COPY, str(error))
        except ClientError as error:
            code, text = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
            if code not in _DENIED | _WRONG:
                raise
            reason = f"{error.operation_name} was refused while {self.folders.source} was copied: {code}: {text}."
            return self._fail(PERMISSION if code in _DENIED else COPY, reason)
        finally:
            if outcome != "verified":
                self.release()
        return outcome == "verified" and self._record(JobState.PENDING, "")

    def _try(self) -> Outcome:
        if not self._wait_for_owner():
            return "over"
        survey, item_before = self.folders.survey(), self.moves.find(self._target)
        if item_before and item_before.state == "pruning":
            return "again"
        if item_before and _is_copied(item_before, survey, str(self.folders.source)):
            message = f"{self._target} was copied before; nothing changed since. Verified: {_verified(item_before)}"
            logger.info(message, extra={"event": "copied", "copied": False})
            return "verified"
        item = self._claim(item_before, survey)
        if item is None:
            return "again"
        copy = self.begin()
        copy.start(is_held=self.attempt.ledger.pause() is not None)
        try:
            return self._follow(copy, item, survey)
        finally:
            copy.stop()

    def _wait_for_repair(self, error: ItemError) -> Outcome:
        """Wait while the ledger's item of the copy cannot be read: many lines may need it, and none fails for it."""
        reason = str(error.damaged)
        if reason != self._reason:
            logger.warning(reason, extra={"event": "copy_damaged"})
        if self._is_over() or not self._record(JobState.WAITING, reason):
            return "over"
        self.attempt.clock.sleep(WAIT_SECONDS)
        return "again"

    def _wait_for_owner(self) -> bool:
        """Wait while another child copies the folder; return False if the attempt is over."""
        revision, progress_time = 0, self.attempt.clock.now()
        while not self._is_over():
            item, time = self.moves.find(self._target), self.attempt.clock.now()
            if item is None or item.state in ("copied", "pruned") or item.owner in ("", self._owner):
                return True
            if item.state == "pruning":
                if not self._record(JobState.WAITING, _PRUNING):
                    return False
                self.attempt.clock.sleep(LOOK_SECONDS)
                continue
            if item.revision != revision:
                revision, progress_time = item.revision, time
            elif time - progress_time >= STALE_SECONDS:
                message = f"{item.owner} has not written its progress for {STALE_SECONDS:.0f} s: taking its copy over"
                logger.info(message, extra={"event": "copy_taken_over"})
                return True
            reason = f"Waits for the copy of {item.source} from {item.from_region} by job {item.job}: {item.percent} %"
            if not self._record(JobState.WAITING, reason):
                return False
            self.attempt.clock.sleep(WAIT_SECONDS)
        return False

    def _claim(self, item_before: MoveItem | None, survey: Survey) -> MoveItem | None:
        """Record this child as the owner of the copy; return None if another child was faster."""
        key, continued = self.attempt.key, item_before is not None and item_before.state != "pruned"
        mine = MoveItem(
            target=self._target,
            source=str(self.folders.source),
            region=self.attempt.job.region,
            from_region=self.from_region,
            owner=self._owner,
            job=f"{key.submission}/{key.index}",
            began_at=item_before.began_at if item_before and continued else now(),
            existed=item_before.existed if item_before and continued else survey.objects - survey.missing,
            objects=survey.objects,
            bytes=survey.bytes,
            missing_bytes=survey.missing_bytes,
            earlier=item_before.transferred_before(survey.missing_bytes) if item_before else {},
            source_digest=survey.source_digest,
        )
        message = f"copying {counted(survey.missing, 'object')}, {byte_size(survey.missing_bytes)}, of {mine.source}"
        message += f" in {self.from_region} to {mine.target}; {survey.objects - survey.missing:,} exist already"
        logger.info(message, extra={"event": "copying", "objects": survey.missing, "bytes": survey.missing_bytes})
        if item_before is None:
            return mine if self.moves.add(mine) else self._kept(mine)
        return self.moves.change(item_before, mine) or self._kept(mine)

    def _kept(self, mine: MoveItem) -> MoveItem | None:
        """Return the present item if this child owns it: botocore repeats a write whose reply was lost."""
        item = self.moves.find(self._target)
        return item if item and (item.owner, item.source) == (mine.owner, mine.source) else None

    def _follow(self, copy: FolderCopy, item: MoveItem, survey: Survey) -> Outcome:
        """Write the progress until all objects are verified, and then record the copy as complete."""
        while not copy.wait(LOOK_SECONDS):
            pause = self.attempt.ledger.pause()
            copy.hold(on=pause is not None)
            changed = replace(item, **vars(copy.progress()))
            changed_item = self.moves.change(item, changed) or self._kept(changed)
            if changed_item is None:
                return "again"
            item = changed_item
            reason = f"Copies {byte_size(item.bytes)} from {self.from_region} before the training: {item.percent} %"
            if pause:
                reason += f". {pause.sentence}"
            if self._is_over() or not self._record(JobState.WAITING, reason):
                return "over"
        after, progress = copy.finish(survey), copy.progress()
        complete = replace(item, state="copied", target_digest=after.target_digest, **vars(progress))
        self.moves.change(item, complete)  # if another child took over, it verifies the objects and records that
        message = f"copied {counted(after.objects, 'object')}, {byte_size(after.bytes)}, to {self._target}. Verified: "
        fields = {"event": "copied", "copied": True, "verified": dict(progress.verified), "bytes": after.bytes}
        logger.info("%s%s", message, _verified(complete), extra=fields)
        return "verified"

    def release(self) -> None:
        """Let another child continue the unfinished copy of a cancelled job at once; of another job, change nothing.

        An earlier process of this child may have begun it. It is not an error if this fails: another child takes the
        copy over when its progress is not written any more.
        """
        with suppress(BotoCoreError, ClientError, ItemError):
            item = self.moves.find(self._target) if self.attempt.is_cancelled() else None
            if item and item.state == "copying" and item.owner == self._owner:
                self.moves.change(item, replace(item, owner=""))

    @property
    def _target(self) -> str:
        return str(self.folders.target)

    @property
    def _owner(self) -> str:
        return self.attempt.batch_child or self.attempt.name

    def _is_over(self) -> bool:
        """Return True, and record it, if the job was cancelled."""
        if not self.attempt.is_cancelled():
            return False
        reason = "It was cancelled before its training job was created."
        failure = STOPPED_BY_USER.name
        self.attempt.record({"state": JobState.STOPPED, "phase": "", "reason": reason, "failure": failure})
        return True

    def _record(self, state: JobState, reason: str) -> bool:
        """Record the reason why the job waits, if it is new; return False if the attempt is over."""
        if reason == self._reason and reason:
            return True
        self._reason = reason
        return self.attempt.record({"state": state, "reason": reason, "failure": ""})

    def _fail(self, failure: Failure, reason: str) -> bool:
        if self.on_failure:
            return self.on_failure(failure, reason)
        self.attempt.record({"state": JobState.FAILED, "reason": reason, "failure": failure.name, "phase": ""})
        return False


def _is_copied(item: MoveItem, survey: Survey, source: str) -> bool:
    """Return True if a copy was verified, and neither folder has changed since."""
    present_state = (survey.missing, survey.source_digest, survey.target_digest)
    recorded_state = (0, item.source_digest, item.target_digest)
    return item.state == "copied" and item.source == source and present_state == recorded_state


def _verified(item: MoveItem) -> str:
    return verification_sentence(item.verified)
