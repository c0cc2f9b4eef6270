"""Shortages: the ledger's memory of instance types for which a Region has no capacity, shared by all children.

Each capacity pool has at most one item, which is replaced only if it has not changed since it was read. The functions
below compute the next item, without side effects. docs/decisions/capacity-memory.md describes the states.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from traingrid.job.failures import CAPACITY
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.errors import ItemError, errors_with_next_step
from traingrid.ledger.field_types import COUNT, PAST, TEXT, check_types
from traingrid.ledger.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.ledger.items import JobItem

SHORTAGES = "capacity"
"""The partition key of the items. It never collides with a submission id, which is hexadecimal."""

FIRST_SECONDS, MAX_SECONDS = 10, 600
"""The wait after the first failure, which doubles after each failed probe, and its maximum."""

PROBE_SECONDS = 600
"""The time that a probe has to get instances. After it, another job may probe, because the first one may be lost."""

FORGOTTEN_SECONDS = 1800
"""The time after `until` after which a shortage that no job has probed is ignored, because it is too old."""

_TYPES = {
    **dict.fromkeys(("until", "since", "failed_at"), PAST),
    "failures": COUNT,
    "training_job": TEXT,
    "probe": TEXT,
}
_PARTS_OF_KEY = 3
_DELETE = "Delete the item; children launch without it, and record a shortage again if there is one."
_CLOCKS_DIFFER_SECONDS = 60
"""The difference between the clocks of two children that is tolerated; Amazon Time Sync keeps it below a second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityPool:
    """The instances that jobs of one kind compete for.

    Attributes:
        spot: True for spot instances, False for on-demand instances.
    """

    region: str
    instance_type: str
    spot: bool

    @property
    def key(self) -> tuple[str, str]:
        """The keys of the pool's item in the table."""
        return SHORTAGES, f"{self.region}#{self.instance_type}#{'spot' if self.spot else 'on_demand'}"

    def __str__(self) -> str:
        return f"{self.instance_type} ({'spot' if self.spot else 'on demand'}) in {self.region}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortage:
    """A pool without capacity, or one that has capacity again. Times are in seconds since 1970.

    Attributes:
        until: No job of this pool is launched before this time, except the probe. 0 if the pool has capacity again.
        since: The time of the first failure.
        failed_at: The time of the last failure.
        failures: The number of failures, of which each after the first is a failed probe.
        training_job: The training job that failed last.
        probe: The training job that tests until `until` if there is capacity again; empty if none does.
    """

    pool: CapacityPool
    until: int
    since: int
    failed_at: int
    failures: int
    training_job: str
    probe: str = ""

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the shortage of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        key = item["item"].split("#")
        with errors_with_next_step(_DELETE):
            if len(key) != _PARTS_OF_KEY:
                raise ItemError(item, "item", "has a key that is not a Region, an instance type and an option")
            check_types(item, _TYPES, required=_TYPES)
        pool = CapacityPool(region=key[0], instance_type=key[1], spot=key[2] == "spot")
        return cls(pool=pool, **{name: item[name] for name in _TYPES})

    def stored(self) -> dict[str, Any]:
        """Return the fields of the stored item, without its keys."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "pool"}

    def is_over(self, now: float) -> bool:
        """Return True if the pool has capacity again, or if no job has probed it for so long that it may have."""
        return now >= self.until + FORGOTTEN_SECONDS

    def is_due(self, now: float) -> bool:
        """Return True if the next job may probe. A time that no correct clock has written does not prevent that."""
        latest = now + max(MAX_SECONDS, PROBE_SECONDS) + _CLOCKS_DIFFER_SECONDS
        return not now < self.until <= latest

    def sentence(self) -> str:
        """Return the shortage as a sentence for a person."""
        until = timestamp(self.until)
        beginning = f"No capacity for {self.pool} since {timestamp(self.since)}"
        if self.probe:
            return f"{beginning}. {self.probe} tests until {until} at the latest if there is capacity again."
        return f"{beginning}, last seen by {self.training_job}. One job tests at {until} if there is capacity again."


def after_failure(read: Shortage | None, pool: CapacityPool, training_job: str, now: float) -> Shortage | None:
    """Return the shortage after a training job found no capacity; None if that changes nothing.

    Jobs that were launched before the shortage was known do not extend it; only the probe does.

    Args:
        read: The recorded shortage, if any.
        pool: The pool of the training job.
        now: The time in seconds since 1970.
    """
    moment = int(now)
    failures = 1
    since = int(now)
    if read and not read.is_over(now):
        if read.probe != training_job:
            return None
        failures, since = read.failures + 1, read.since
    seconds = min(FIRST_SECONDS * 2 ** min(failures - 1, 30), MAX_SECONDS)
    return Shortage(
        pool=pool,
        until=moment + seconds,
        since=since,
        failed_at=moment,
        failures=failures,
        training_job=training_job,
    )


def claimed(read: Shortage, training_job: str, now: float) -> Shortage:
    """Return the shortage with a new probe."""
    return replace(read, probe=training_job, until=int(now) + PROBE_SECONDS)


def given_up(read: Shortage, now: float) -> Shortage:
    """Return the shortage after its probe ended without showing if there is capacity, so that another job may probe."""
    return replace(read, probe="", until=int(now))


def after_probe(read: Shortage, item: JobItem, attempt: int, now: float) -> Shortage:
    """Return the shortage after its probe, as far as the item of the probe's line shows that it has ended.

    Args:
        item: The item of the probe's line.
        attempt: The number of the probe's attempt, which may not be opened yet.
        now: The time in seconds since 1970.

    Returns:
        The recorded shortage if the probe has not ended.
    """
    probe = item.attempts().get(attempt)
    if probe is None:
        return given_up(read, now) if item.state in FINAL_STATES else read
    if probe.region != read.pool.region:
        return given_up(read, now)  # another child of the line was faster, and chose another Region
    if probe.failure == CAPACITY.name and probe.state in FINAL_STATES:
        return after_failure(read, read.pool, read.probe, now) or read
    if probe.state == JobState.COMPLETED or probe.billable_seconds:
        return ended(read)
    return given_up(read, now) if probe.state in FINAL_STATES else read


def ended(read: Shortage) -> Shortage:
    """Return the shortage after a training job got its instances."""
    return replace(read, probe="", until=0)
