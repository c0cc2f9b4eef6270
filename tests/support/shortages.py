"""Shortages: samples of capacity that a Region lacks."""

from typing import Any

from tests.support.training_jobs import FIRST_MOMENT
from traingrid.job.job import Job
from traingrid.ledger.damage import intact
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.shortages import CapacityPool, Shortage, ended

OTHER_JOB = "traingrid-89abcdef-7-1"
"""A training job of another line."""


def pool_of(job: Job, region: str = "") -> CapacityPool:
    return CapacityPool(region=region or job.region, instance_type=job.instance_type, spot=job.spot)


def short(pool: CapacityPool, **fields: Any) -> Shortage:
    """Return a shortage that was found at the fake clock's first moment and lasts for 100 s."""
    found: dict[str, Any] = {"since": FIRST_MOMENT, "failed_at": FIRST_MOMENT, "until": FIRST_MOMENT + 100}
    return Shortage(pool=pool, **{"failures": 1, "training_job": OTHER_JOB, **found, **fields})


def recorded(ledger: Ledger, shortage: Shortage) -> Shortage:
    """Record a shortage, instead of an earlier one of the same pool, and return it."""
    assert ledger.replace_shortage(ledger.shortage(shortage.pool), shortage)
    return shortage


def forget_shortages(ledger: Ledger) -> None:
    """End all recorded shortages."""
    for shortage in intact(ledger.shortages()):
        ledger.replace_shortage(shortage, ended(shortage))
