"""Estimate: the instance-hours, merges and copies of the rounds that follow, against training in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.deploy.prices import GIGABYTE, TRANSFER
from traingrid.text import byte_size, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class JobEstimate:
    """A training or a merge of each round; unknown values are None.

    Attributes:
        seconds: Its duration in one round.
        hourly_dollars: The price of all of its instances on demand.
        data_bytes: The size of its data.
    """

    region: str
    instances: int = 1
    seconds: float | None = None
    hourly_dollars: float | None = None
    data_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class RoundsEstimate:
    """The rounds that follow.

    Attributes:
        weights_bytes: The size of a model's archive; None if there is none yet.
        begins_alone: True if the first of the rounds begins without a global model, which then is not copied.
    """

    rounds: int
    trainings: Sequence[JobEstimate]
    merge: JobEstimate
    weights_bytes: int | None = None
    begins_alone: bool = True

    def sentences(self) -> Iterator[str]:
        """Yield the estimate, with the next step for unknown values."""
        yield f"Estimate for {counted(self.rounds, 'more round')}, at list prices on demand:"
        step = "not known; write estimated_runtime into the lines, or see again after a round"
        yield f"  trainings: {_hours(self.trainings, self.rounds) or step}"
        yield f"  merges: {_hours([self.merge], self.rounds) or 'not known before the first one'}"
        yield f"  weights across borders: {self._transfer()}"
        yield from self._in_one_place()

    @property
    def copies(self) -> int:
        """The number of copies of models between Regions."""
        outside = {training.region for training in self.trainings} - {self.merge.region}
        own = sum(training.region != self.merge.region for training in self.trainings)
        return self.rounds * (len(outside) + own) - len(outside) * self.begins_alone

    def _transfer(self) -> str:
        if self.weights_bytes is None:
            return f"{self.copies:,} copies of a model, whose size is not known before the first round"
        size = self.copies * self.weights_bytes
        return f"{self.copies:,} copies of {byte_size(self.weights_bytes)}, {byte_size(size)}, {_transfer_price(size)}"

    def _in_one_place(self) -> Iterator[str]:
        """Yield the copy of all data to the Region in which it costs least to train on it."""
        if unknown := dict.fromkeys(training.region for training in self.trainings if training.data_bytes is None):
            yield f"  in one place instead: not known, as the size of the data in {', '.join(unknown)} is not"
            return
        sizes: dict[str, int] = {}
        for training in self.trainings:
            sizes[training.region] = sizes.get(training.region, 0) + (training.data_bytes or 0)
        total = sum(sizes.values())
        region = min(sizes, key=lambda name: self._dollars_in(name, total - sizes[name]))
        moved = total - sizes[region]
        text = f"{byte_size(moved)} of {byte_size(total)} would be copied to {region}, {_transfer_price(moved)}"
        yield f"  in one place instead: {text}, if the data may leave its Regions"

    def _dollars_in(self, region: str, moved: int) -> float:
        """Return the cost of training in a Region: of the copy, and of the instances if both are known."""
        hourly = next(training.hourly_dollars for training in self.trainings if training.region == region)
        seconds = [training.seconds for training in self.trainings if training.seconds is not None]
        is_known = hourly is not None and len(seconds) == len(self.trainings)
        instances = (hourly or 0.0) * self.rounds * sum(seconds) / _HOUR if is_known else 0.0
        return moved / GIGABYTE * TRANSFER.dollars + instances


def _hours(jobs: Sequence[JobEstimate], rounds: int) -> str:
    """Return the instance-hours of jobs in all rounds, and their price if it is known; empty if a duration is not."""
    hours = [job.seconds / _HOUR * rounds for job in jobs if job.seconds is not None]
    if len(hours) < len(jobs):
        return ""
    instance_hours = sum(part * job.instances for part, job in zip(hours, jobs, strict=True))
    dollars = [
        part * job.hourly_dollars for part, job in zip(hours, jobs, strict=True) if job.hourly_dollars is not None
    ]
    price = f"${sum(dollars):,.2f}" if len(dollars) == len(jobs) else "price not known"
    return f"{instance_hours:,.2f} instance-hours, {price}"


def _transfer_price(size: float) -> str:
    return f"${size / GIGABYTE * TRANSFER.dollars:,.2f} at ${TRANSFER.dollars:g} per GB"
