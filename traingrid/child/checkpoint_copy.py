"""Checkpoint copy: copies a job's newest checkpoint to the Region of its next attempt, before its training job exists.

A job that moves would otherwise start from the beginning. The decision follows from the ledger's earlier attempts and
from the objects in S3, so a child that replaces another one decides the same; the ledger records the result once, with
the size and the cost. A job never fails because it may not take its checkpoint along: it starts without one. It does
fail if a part of a checkpoint of unknown format was copied, because a training could take the part for the whole.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.s3 import PatientStorage, Storage
from traingrid.aws.s3_copy import CopyStore
from traingrid.child.checkpoint_prune import checkpoint_folder, copied_folders, prune_checkpoints
from traingrid.child.data_copy import CopyOrder, copy_of, store_of
from traingrid.child.spot_policy import Transfer
from traingrid.deploy.prices import GIGABYTE, TRANSFER
from traingrid.errors import TraingridError
from traingrid.grid.residency import is_resident
from traingrid.job.state import JobState
from traingrid.text import byte_size
from traingrid.transfers.checkpoints import Checkpoint, newest_checkpoint
from traingrid.transfers.listing import named_objects

if TYPE_CHECKING:
    from traingrid.aws.s3_uri import S3Uri
    from traingrid.child.attempt import Attempt
    from traingrid.child.data_copy import DataCopy
    from traingrid.grid.deployment import Deployment
    from traingrid.job.facts import CheckpointFacts, JobFacts
    from traingrid.job.failures import Failure
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)
_BYTES_PER_SECOND = 85e6
"""The assumed speed of a copy: that of one request in S3
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html)."""


@dataclass(frozen=True, kw_only=True)
class _PlacedCheckpoint:
    """The newest checkpoint in a Region."""

    region: str
    folder: S3Uri
    checkpoint: Checkpoint

    @property
    def words(self) -> str:
        name = self.checkpoint.name
        return f"{name} of {self.region}" if name else f"the checkpoint of {self.region}"


class _Choice(NamedTuple):
    """The checkpoint with which an attempt can begin.

    Attributes:
        own: The newest one in its Region.
        copied: The one that is copied to there; None to copy none.
        refusal: The reason why none is copied; empty if none is needed.
    """

    own: _PlacedCheckpoint | None = None
    copied: _PlacedCheckpoint | None = None
    refusal: str = ""


@dataclass(kw_only=True)
class CheckpointCopy:
    """Chooses and copies the checkpoint with which an attempt begins.

    Attributes:
        waits: Whether reads wait out an outage; otherwise they fail.
    """

    attempt: Attempt
    deployment: Deployment
    item: JobItem
    waits: bool = True
    _copy: DataCopy | None = field(default=None, init=False)
    _refusals: dict[str, str] = field(default_factory=dict, init=False)

    def run(self) -> bool:
        """Copy the newest checkpoint of the earlier attempts, unless it is in the attempt's Region.

        Returns:
            False if the attempt is over: cancelled, failed, or continued by another process.
        """
        region, trained = self.attempt.job.region, self._trained()
        if not self._is_in_output:
            folder = self.attempt.job.checkpoints
            return self._record({"checkpoint_note": f"Uses {folder} as it is: a line's own folder is not copied."})
        # A child was perhaps killed while it removed the copy here, after the job had left.
        prune_checkpoints([self._folder(region)], self.deployment, self._owner, resumes_only=True)
        choice = self._choice(trained)
        if choice.copied:
            return self._copied(choice.copied, choice.own)
        return not choice.refusal or self._record(self._without(choice.refusal, choice.own))

    def transfer(self) -> Transfer | None:
        """Return the transfer with which the job would continue in the attempt's Region; None if it could not.

        Nothing is changed. A checkpoint that cannot be read now counts as one that may not be copied.
        """
        # Unlike `run`, which lists a folder in vain rather than miss a checkpoint.
        trained = [previous.region for previous in reversed(self.item.tried) if previous.may_have_trained]
        trained = list(dict.fromkeys(trained))
        if not self.attempt.job.checkpoints or not trained:
            return Transfer()
        if not self._is_in_output:
            return None
        choice = self._choice(trained)
        if self._refusals or (choice.refusal and choice.own):
            return None
        size = choice.copied.checkpoint.bytes if choice.copied else 0
        return Transfer(size / _BYTES_PER_SECOND, _dollars(size))

    def release(self) -> None:
        """Let another child continue the unfinished copy of a cancelled job; see `DataCopy.release`."""
        if self._copy:
            self._copy.release()

    def _choice(self, trained: list[str]) -> _Choice:
        """Return the checkpoint to copy.

        Args:
            trained: The Regions in which attempts had a training job, the latest first.
        """
        region = self.attempt.job.region
        sources = [source for source in map(self._source, trained) if source and source.region != region]
        if not sources:
            reasons = "; ".join(
                f"that of {place} is not copied, because {why}" for place, why in self._refusals.items()
            )
            return _Choice(refusal=reasons or "no other Region has a complete checkpoint")
        own = self._source(region)
        # Among equal ones, that of the latest attempt.
        newest = max(sources, key=lambda source: source.checkpoint.age)
        if own and own.checkpoint.age and newest.checkpoint.age:
            return _Choice(own, None if own.checkpoint.age >= newest.checkpoint.age else newest)
        if own and region in trained:  # of an unknown format, the order is that of the attempts
            reason = f"{newest.words} is newer, and a training could mix the two, because their format is not known"
            return _Choice(own, refusal="" if trained[0] == region else reason)
        return _Choice(own, newest)

    @property
    def _is_in_output(self) -> bool:
        """True if the checkpoints are in the job's output, unlike those in a line's own folder."""
        return self.attempt.job.checkpoints.rstrip("/") == str(self._folder(self.attempt.job.region))

    def _trained(self) -> list[str]:
        """Return the Regions in which attempts had a training job, the latest first."""
        return list(dict.fromkeys(previous.region for previous in reversed(self.item.tried) if previous.training_job))

    def _folder(self, region: str) -> S3Uri:
        return checkpoint_folder(self.item, region, self.deployment)

    @property
    def _owner(self) -> str:
        return self.attempt.batch_child or self.attempt.name

    def _source(self, region: str) -> _PlacedCheckpoint | None:
        """Return the newest checkpoint in a Region; None if there is none, or if it may not be copied or read."""
        if refusal := self._refusal(region):
            self._refusals[region] = refusal
            return None
        folder = self._folder(region)
        try:
            storage = PatientStorage(partial(Storage, region), region) if self.waits else Storage(region)
            store = store_of(region) if self.waits else CopyStore(region)
            sizes = {name: listed.size for name, listed in named_objects(store, folder)}
            checkpoint = newest_checkpoint(sizes, lambda name: storage.read(folder / name))
        except (BotoCoreError, ClientError, TraingridError) as error:
            self._refusals[region] = f"it cannot be read ({error})"
            return None
        return _PlacedCheckpoint(region=region, folder=folder, checkpoint=checkpoint) if checkpoint else None

    def _refusal(self, region: str) -> str:
        """Return the reason why no checkpoint may be copied from a Region; empty if it may."""
        grid, target = self.deployment.grid, self.attempt.job.region
        if region == target:
            return ""
        if not grid.moves:
            return "`moves` is not set in grid.yaml"
        if not {region, target} <= {*grid.at_home()}:
            return "the two Regions are not both in the account of the home Region"
        if region not in grid.checkpoint_sources(target):
            areas = ", ".join(grid.regions[region].checkpoint_areas)
            return f"grid.yaml allows the checkpoints of {region} only in {areas}"
        # A corrected line may have another residency than the line of which the checkpoint is.
        of_lines = [previous.residency for previous in self.item.tried if previous.training_job]
        areas = next((", ".join(areas) for areas in of_lines if not is_resident(target, areas)), "")
        return f"its line allowed its data only in {areas}" if areas else ""

    def _copied(self, newest: _PlacedCheckpoint, own: _PlacedCheckpoint | None) -> bool:
        """Copy a checkpoint, and record it."""
        size, target = newest.checkpoint.bytes, self._folder(self.attempt.job.region)
        dollars = _dollars(size)
        text = f"{newest.words}, {byte_size(size)}"
        logger.info("Copying %s, for about $%.4f", text, dollars, extra={"event": "checkpoint", "dollars": dollars})
        order = CopyOrder(
            source=newest.folder,
            target=target,
            from_region=newest.region,
            names=frozenset(newest.checkpoint.sizes),
            last=newest.checkpoint.last,
        )
        self._copy = replace(
            copy_of(self.attempt, self.deployment, order), on_failure=partial(self._go_without, newest, own)
        )
        if not self._copy.run():
            return False
        left = [folder for folder in copied_folders(self.item, self.deployment) if folder != target]
        prune_checkpoints(left, self.deployment, self._owner)
        if self.attempt.item().checkpoint_note:  # `_go_without` has recorded that it was refused
            return True
        facts: CheckpointFacts = {"checkpoint_from": newest.region, "checkpoint_bytes": size}
        facts |= {"checkpoint_dollars": dollars, "checkpoint_note": f"Continues from {text}."}
        return self._record(facts)

    def _go_without(
        self, newest: _PlacedCheckpoint, own: _PlacedCheckpoint | None, failure: Failure, reason: str
    ) -> bool:
        """Record that the attempt begins without a copy; or that the job has failed, if a part was copied.

        A training detects and skips a partial checkpoint of the known format.
        """
        if not newest.checkpoint.age and (own or self._source(self.attempt.job.region)):
            text = f"A part of {newest.words} was copied. {reason}"
            self.attempt.record({"state": JobState.FAILED, "reason": text, "failure": failure.name, "phase": ""})
            return False
        return self._record(self._without(f"{newest.words} is not copied: {reason}".rstrip("."), own))

    def _without(self, reason: str, own: _PlacedCheckpoint | None) -> CheckpointFacts:
        region, beginning = self.attempt.job.region, "Starts from the beginning"
        if own or region in self._trained():
            beginning = f"Continues from {own.words if own else f'the checkpoints of {region}, if it has any'}"
        return {"checkpoint_note": f"{beginning}: {reason}."}

    def _record(self, facts: CheckpointFacts) -> bool:
        logger.info(facts["checkpoint_note"], extra={"event": "checkpoint"})
        pending: JobFacts = {"state": JobState.PENDING, "reason": "", "failure": ""}
        return self.attempt.record({**pending, **facts})


def _dollars(size: int) -> float:
    """Return the estimated cost of the transfer of a number of bytes."""
    return round(size / GIGABYTE * TRANSFER.dollars, 6)
