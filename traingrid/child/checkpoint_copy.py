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
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from traingrid.aws.s3 import PatientStorage, Storage
from traingrid.child.checkpoint_prune import checkpoint_folder, copied_folders, prune_checkpoints
from traingrid.child.data_copy import CopyOrder, copy_of, store_of
from traingrid.deploy.prices import GIGABYTE, TRANSFER
from traingrid.errors import UsageError
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


@dataclass(kw_only=True)
class CheckpointCopy:
    """Chooses and copies the checkpoint with which an attempt begins."""

    attempt: Attempt
    deployment: Deployment
    item: JobItem
    _copy: DataCopy | None = field(default=None, init=False)
    _refusals: dict[str, str] = field(default_factory=dict, init=False)

    def run(self) -> bool:
        """Copy the newest checkpoint of the earlier attempts, unless it is in the attempt's Region.

        Returns:
            False if the attempt is over: cancelled, failed, or continued by another process.
        """
        region, trained = self.attempt.job.region, self._trained()
        if self.attempt.job.checkpoints.rstrip("/") != str(self._folder(region)):
            folder = self.attempt.job.checkpoints
            return self._record({"checkpoint_note": f"Uses {folder} as it is: a line's own folder is not copied."})
        # A child was perhaps killed while it removed the copy here, after the job had left.
        prune_checkpoints([self._folder(region)], self.deployment, self._owner, resumes_only=True)
        sources = [source for source in map(self._source, trained) if source and source.region != region]
        if not sources:
            reasons = "; ".join(
                f"that of {place} is not copied, because {why}" for place, why in self._refusals.items()
            )
            return self._record(self._without(reasons or "no other Region has a complete checkpoint", None))
        own = self._source(region)
        # Among equal ones, that of the latest attempt.
        newest = max(sources, key=lambda source: source.checkpoint.age)
        if own and own.checkpoint.age and newest.checkpoint.age:
            return own.checkpoint.age >= newest.checkpoint.age or self._copied(newest, own)
        if own and region in trained:  # of an unknown format, the order is that of the attempts
            reason = f"{newest.words} is newer, and a training could mix the two, because their format is not known"
            return trained[0] == region or self._record(self._without(reason, own))
        return self._copied(newest, own)

    def release(self) -> None:
        """Let another child continue the unfinished copy of a cancelled job; see `DataCopy.release`."""
        if self._copy:
            self._copy.release()

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
        storage = PatientStorage(partial(Storage, region), region)
        try:
            sizes = {name: listed.size for name, listed in named_objects(store_of(region), folder)}
            checkpoint = newest_checkpoint(sizes, lambda name: storage.read(folder / name))
        except (ClientError, UsageError) as error:
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
        dollars = round(size / GIGABYTE * TRANSFER.dollars, 6)
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
