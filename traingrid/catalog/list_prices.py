"""List prices: SageMaker's hourly prices on demand in the snapshot, for commands without a catalog."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from traingrid.job.backend_traits import DEFAULT_BACKEND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.job.job import Job


@dataclass(frozen=True)
class ListPrice:
    """A price in US dollars per hour of an instance.

    Attributes:
        as_of: The day of the price, as in 2026-09-24.
    """

    dollars_per_hour: float
    as_of: str


@dataclass(frozen=True)
class JobPrice:
    """The price of a job on demand, in US dollars per hour of all of its instances.

    Attributes:
        as_of: The day of the list price; empty if the line itself states a price.
    """

    job: Job
    hourly: float
    as_of: str

    @property
    def most(self) -> float:
        """The price of the longest attempt that `max_runtime` allows, in US dollars."""
        return self.hourly * self.job.max_runtime_seconds / 3600


def job_price(job: Job) -> JobPrice | None:
    """Return the price of a job by its line or the snapshot; None if it is unknown."""
    if job.dollars_per_hour is not None:
        return JobPrice(job, job.dollars_per_hour * job.instance_count, "")
    price = list_prices().get((job.region, job.instance_type))
    return JobPrice(job, price.dollars_per_hour * job.instance_count, price.as_of) if price else None


def is_billed(job: Job) -> bool:
    """Return False for a job on a cluster or of a training plan, whose instances the team pays for in any case."""
    return job.backends[0] == DEFAULT_BACKEND and not job.training_plan


def dollars_per_hour(job: Job) -> float | None:
    """Return the price of an hour of all instances of a job on demand; None if it is unknown or not billed by use."""
    price = job_price(job) if is_billed(job) else None
    return price.hourly if price else None


@cache
def list_prices() -> Mapping[tuple[str, str], ListPrice]:
    """Return the snapshot's prices on demand by Region and instance type."""
    return {
        (row["region"], row["instance_type"]): ListPrice(float(row["dollars_per_hour"]), row["as_of"])
        for row in _rows("prices.csv")
        if row["purchase_option"] == "on_demand"
    }


@cache
def transfer_prices() -> Mapping[tuple[str, str], float]:
    """Return the snapshot's prices of copies, in US dollars per GB, by the Regions from and to which they are made."""
    return {
        (row["from_region"], row["to_region"]): float(row["dollars_per_gb"]) for row in _rows("transfer_prices.csv")
    }


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = files("traingrid.catalog").joinpath("snapshot", name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())
