"""Capacity: uses the shortages that all children record, so that one job tests a Region without capacity, not all.

A lost or failed call never prevents a launch: without an answer the child continues as if no shortage were known. A
service queue tries queued jobs again itself, a training plan's instances are reserved, and Kubernetes keeps pods
waiting until there is capacity; jobs with one of these neither read nor record shortages.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.outage import code_of
from traingrid.backoff import PAUSE_CAP, backoff_seconds
from traingrid.job.failures import CAPACITY, SHORTAGE
from traingrid.job.state import JobState
from traingrid.ledger.errors import ItemError
from traingrid.ledger.shortages import (
    FIRST_SECONDS,
    CapacityPool,
    after_failure,
    after_probe,
    claimed,
    ended,
    given_up,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.child.attempt import Attempt
    from traingrid.job.candidates import Candidate
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.shortages import Shortage

logger = logging.getLogger(__name__)
CAPACITY_CALLS = frozenset({"shortage", "replace_shortage"})
"""The methods of the ledger that may fail without consequence."""

_MANY_TRIES = 30
"""After this many tries, `backoff_seconds` returns between half of its maximum and its maximum."""
_MAX_TURNS = 2
"""The number of failures of a line that still postpone its next probe."""


@dataclass(kw_only=True)
class Capacity:
    """The known shortages, as one attempt uses them."""

    attempt: Attempt
    _is_probe: bool | None = field(default=None, init=False)  # None: another child launched the training job
    _is_reported: bool = field(default=False, init=False)

    @property
    def pool(self) -> CapacityPool:
        """The pool of the attempt's instances."""
        return self._pool_in(self.attempt.job.region)

    def shortage(self) -> Shortage | None:
        """Return the shortage that prevents the launch now; None if there is none, or if this attempt is its probe."""
        self._is_probe = False
        return self._shortage(self.pool, self.attempt.name) if self._is_shared else None

    def move(self, item: JobItem, shortage: Shortage) -> bool:
        """Move the job to its next candidate without a shortage, if no training job of the attempt may exist or start.

        Another child of this line may have sent a request, too, so each one must have been refused.

        Returns:
            True if this attempt is over.
        """
        if not item.is_unrequested:
            return False
        attempt = self.attempt
        following = names.training_job(attempt.grid, attempt.submission, attempt.job.index, attempt.number + 1)
        for candidate in self._others(item):
            if candidate.backend == "sagemaker" and self._shortage(self._pool_in(candidate.region), following):
                continue
            attempt.skip(SHORTAGE, shortage.sentence(), candidate)  # or another child of this line was faster
            self._is_probe = False
            return True
        return False

    def wait_seconds(self, item: JobItem, shortage: Shortage) -> float:
        """Return the time until the attempt reads the shortage again.

        A line that has found no capacity before waits longer than the others, so that another line probes.
        """
        earlier_failures = min(item.failures_since_retry.count(CAPACITY.name), _MAX_TURNS)
        left = max(shortage.until - self.attempt.clock.wall(), 0.0)
        turn = FIRST_SECONDS * (earlier_failures + random.random())  # noqa: S311  # not used for cryptography
        return min(left + turn, backoff_seconds(_MANY_TRIES, PAUSE_CAP))

    def is_missing(self, region: str, *, spot: bool, unless_due: bool = False) -> bool:
        """Return True if another job has found no capacity in a Region; without an answer there may be some.

        Args:
            spot: Whether the instances are spot instances.
            unless_due: Return False if it is time that a job tests if there is capacity again.
        """
        if not self._is_shared:
            return False
        shortage, _ = self._read_shortage(replace(self._pool_in(region), spot=spot))
        if shortage is None or shortage.probe == self.attempt.name:
            return False
        now = self.attempt.clock.wall()
        return not (shortage.is_over(now) or (unless_due and shortage.is_due(now)))

    def missing(self) -> None:
        """Record that the attempt's training job found no capacity."""
        if not self._is_shared:
            return
        read, is_known = self._read_shortage(self.pool)
        new = after_failure(read, self.pool, self.attempt.name, self.attempt.clock.wall()) if is_known else None
        self._is_reported = True
        if new and self._replace(read, new):
            _log(f"{self.attempt.name}: {new.sentence()}", "capacity_missing", new)

    def record_instances(self) -> None:
        """Record that the attempt's training job has its instances, if it is the probe of a shortage."""
        if self._is_reported:
            return
        self._is_reported = True
        read = self._probed_shortage()
        if read and self._replace(read, ended(read)):
            _log(f"{self.attempt.name}: there is capacity for {read.pool} again", "capacity_found", read)

    def end(self) -> None:
        """Let another job probe if this attempt was the probe and ended without showing if there is capacity."""
        if self._is_reported or not self._is_probe:
            return
        item = self.attempt.item()
        if item.attempt == self.attempt.number and (item.training_seconds or item.state == JobState.COMPLETED):
            self.record_instances()  # an event recorded the end before this child saw that it ran
            return
        read = self._probed_shortage()
        if read and read.probe == self.attempt.name and self._replace(read, given_up(read, self.attempt.clock.wall())):
            _log(f"{self.attempt.name}: another job tests the capacity of {read.pool}", "capacity_untested", read)

    @property
    def _is_shared(self) -> bool:
        job = self.attempt.job
        return self.attempt.backend_name == "sagemaker" and job.launch == "direct" and not job.training_plan

    def _pool_in(self, region: str) -> CapacityPool:
        job = self.attempt.job
        return CapacityPool(region=region, instance_type=job.instance_type, spot=job.spot)

    def _others(self, item: JobItem) -> Iterator[Candidate]:
        """Yield the other candidates, beginning with the one after the current one.

        No shortages are recorded for EKS, so a candidate there is omitted if the line has tried it already.
        """
        current, candidates = self.attempt.candidate, self.attempt.uncancelled()
        position = candidates.index(current) if current in candidates else 0
        for candidate in (*candidates[position:], *candidates[:position]):
            if candidate != current and (candidate.backend == "sagemaker" or candidate not in item.tried_since_retry):
                yield candidate

    def _shortage(self, pool: CapacityPool, training_job: str) -> Shortage | None:
        """Return the shortage of a pool; None if there is none, or if the training job is its probe from now on."""
        read, _ = self._read_shortage(pool)
        now = self.attempt.clock.wall()
        if read is None or read.is_over(now):
            return None
        if read.probe != training_job:
            read = self._shortage_after_probe(read, now)
            if read.is_over(now):
                return None
            if not read.is_due(now):
                return read
            new = claimed(read, training_job, now)
            if not self._replace(read, new):
                return read
            _log(f"{training_job} tests if there is capacity for {pool} again", "capacity_probe", new)
        self._is_probe = True
        return None

    def _shortage_after_probe(self, read: Shortage, now: float) -> Shortage:
        """Return the shortage after its probe if the probe's line shows that it has ended, otherwise as it was read.

        The probe's child reports its result, unless the child is lost, or another child of its line was faster.
        """
        probe = names.parse_training_job(self.attempt.grid, read.probe)
        try:
            item = self.attempt.ledger.job(probe.submission, probe.index) if probe else None
        except ItemError:
            return read
        new = after_probe(read, item, probe.attempt, now) if probe and item else read
        if new == read or not self._replace(read, new):
            return read
        _log(f"{read.probe} has ended. {new.sentence()}", "capacity_probe_ended", new)
        return new

    def _probed_shortage(self) -> Shortage | None:
        """Return the shortage of which this attempt is, or was, the probe."""
        if self._is_probe is False or not self._is_shared:
            return None
        read, _ = self._read_shortage(self.pool)
        if read is None or read.is_over(self.attempt.clock.wall()):
            return None
        return read if self._is_probe or read.probe == self.attempt.name else None

    def _read_shortage(self, pool: CapacityPool) -> tuple[Shortage | None, bool]:
        """Return the shortage of a pool, None if it has none, and whether the ledger answered."""
        try:
            return self.attempt.ledger.shortage(pool), True
        except (BotoCoreError, ClientError, ItemError) as error:
            _log_failure(error, pool)
            return None, False

    def _replace(self, read: Shortage | None, new: Shortage) -> bool:
        """Record a shortage; return False if it has changed since it was read, or the ledger did not answer."""
        try:
            return self.attempt.ledger.replace_shortage(read, new)
        except (BotoCoreError, ClientError) as error:
            _log_failure(error, new.pool)
            return False


def _log(message: str, event: str, shortage: Shortage) -> None:
    pool = shortage.pool
    fields = {"region": pool.region, "instance_type": pool.instance_type, "spot": pool.spot, "until": shortage.until}
    logger.info(message, extra={"event": event, **fields, "failures": shortage.failures, "probe": shortage.probe})


def _log_failure(error: Exception, pool: CapacityPool) -> None:
    code = type(error).__name__ if isinstance(error, ItemError) else code_of(error)
    fields = {"event": "capacity_unknown", "failure": code, "region": pool.region, "instance_type": pool.instance_type}
    message = f"The recorded capacity of {pool} cannot be used: {error}. Continuing without it."
    logger.warning(message, extra=fields)
