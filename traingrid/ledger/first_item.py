"""First item of a job: the fields with which its first attempt begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.job.backend_traits import backend_field
from traingrid.job.state import JobState
from traingrid.ledger.items import job_item
from traingrid.ledger.timestamps import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.aws.dynamodb import Item
    from traingrid.job.job import Job


def first_item(submission: str, job: Job, regions: Sequence[str]) -> Item:
    """Return a pending job's item; without Regions, the job may train in its own only."""
    facts = {"region": job.region, "name": job.name, "line": job.line, "ranks": job.ranks}
    item = {"submission": submission, "item": job_item(job.index), "state": JobState.PENDING, "attempt": 1, **facts}
    item |= {"regions": list(regions) or [job.region], "opened_at": now(), **_hourly(job)}
    return item | backend_field(job.backends[0])


def _hourly(job: Job) -> Item:
    """Return the prices of an hour of all instances of a job; none for a job without a budget or price."""
    if job.budget_dollars is None or job.dollars_per_hour is None:
        return {}
    spot_price = job.spot_dollars_per_hour if job.spot else None
    running_price = job.dollars_per_hour if spot_price is None else spot_price
    price_by_field = {"hourly_dollars": job.dollars_per_hour, "running_hourly_dollars": running_price}
    return {name: dollars * job.instance_count for name, dollars in price_by_field.items()}
