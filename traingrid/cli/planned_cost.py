"""Planned cost: the sentences about the price of the jobs that a manifest would create."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.catalog.list_prices import list_prices
from traingrid.job.backend_traits import DEFAULT_BACKEND
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.job.job import Job

PRICING_PAGE = "https://aws.amazon.com/sagemaker/pricing/"


@dataclass(frozen=True)
class _JobPrice:
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


def dollars_per_hour(job: Job) -> float | None:
    """Return the price of an hour of all instances of a job on demand; None if it is unknown or not billed by use."""
    price = _price(job) if _is_billed(job) else None
    return price.hourly if price else None


def cost_sentences(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield sentences about what SageMaker bills for jobs, by their lines' prices or the snapshot's.

    Prices are on demand, per hour while all jobs train, and for one attempt of each. Spot instances cost less.
    """
    billed = [job for job in jobs if _is_billed(job)]
    prices = [price for job in billed if (price := _price(job))]
    if prices:
        hourly, most = sum(price.hourly for price in prices), sum(price.most for price in prices)
        scope = f" of {counted(len(prices), 'job')}" if len(prices) < len(billed) else ""
        source = _source(sorted({price.as_of for price in prices if price.as_of}))
        yield f"Cost{scope}: ${hourly:,.2f} an hour, at most ${most:,.2f} by max_runtime ({source})"
    regions_by_type: dict[str, set[str]] = {}
    for job in billed:
        if _price(job) is None:
            regions_by_type.setdefault(job.instance_type, set()).add(job.region)
    if regions_by_type:
        places = (f"{name} in {', '.join(sorted(regions))}" for name, regions in sorted(regions_by_type.items()))
        yield f"Cost unknown: {'; '.join(places)}"
        yield f"AWS's prices: {PRICING_PAGE}"


def _source(days: Sequence[str]) -> str:
    """Return the source of prices of these days."""
    return f"list prices of {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else "prices of the lines"


def _is_billed(job: Job) -> bool:
    """Return False for a job on a cluster or of a training plan, whose instances the team pays for in any case."""
    return job.backends[0] == DEFAULT_BACKEND and not job.training_plan


def _price(job: Job) -> _JobPrice | None:
    if job.dollars_per_hour is not None:
        return _JobPrice(job, job.dollars_per_hour * job.instance_count, "")
    price = list_prices().get((job.region, job.instance_type))
    return _JobPrice(job, price.dollars_per_hour * job.instance_count, price.as_of) if price else None
