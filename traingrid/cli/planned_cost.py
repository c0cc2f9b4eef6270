"""Planned cost: the sentences about the price of the jobs that a manifest would create."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.catalog.list_prices import is_billed, job_price
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.job.job import Job

PRICING_PAGE = "https://aws.amazon.com/sagemaker/pricing/"


def cost_sentences(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield sentences about what SageMaker bills for jobs, by their lines' prices or the snapshot's.

    Prices are on demand, per hour while all jobs train, and for one attempt of each. Spot instances cost less.
    """
    billed = [job for job in jobs if is_billed(job)]
    prices = [price for job in billed if (price := job_price(job))]
    if prices:
        hourly, most = sum(price.hourly for price in prices), sum(price.most for price in prices)
        scope = f" of {counted(len(prices), 'job')}" if len(prices) < len(billed) else ""
        source = _source(sorted({price.as_of for price in prices if price.as_of}))
        yield f"Cost{scope}: ${hourly:,.2f} an hour, at most ${most:,.2f} by max_runtime ({source})"
    regions_by_type: dict[str, set[str]] = {}
    for job in billed:
        if job_price(job) is None:
            regions_by_type.setdefault(job.instance_type, set()).add(job.region)
    if regions_by_type:
        places = (f"{name} in {', '.join(sorted(regions))}" for name, regions in sorted(regions_by_type.items()))
        yield f"Cost unknown: {'; '.join(places)}"
        yield f"AWS's prices: {PRICING_PAGE}"


def _source(days: Sequence[str]) -> str:
    """Return the source of prices of these days."""
    return f"list prices of {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else "prices of the lines"
