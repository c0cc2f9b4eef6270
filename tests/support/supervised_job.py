"""Supervising: runs a supervisor with a fake service, and reads its job from the ledger."""

from typing import Any

from tests.support.training_jobs import FakeTime
from traingrid.backends.base import LaunchError
from traingrid.child.supervisor import Supervisor
from traingrid.job.failures import QUOTA
from traingrid.job.job import Job
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import Ledger

NAME = "traingrid-0123abcd-0-1"
QUOTA_IS_USED_UP = LaunchError(QUOTA, "ResourceLimitExceeded: the limit of ml.p4d.24xlarge is 2 Instances.")


def supervisor(
    job: Job,
    backend: Any,
    ledger: Any,
    time: FakeTime | None = None,
    **more: Any,
) -> Supervisor:
    return Supervisor(
        grid="traingrid",
        submission="0123abcd",
        job=job,
        backend_in=lambda region, name: _found(backend, region, name),
        ledger=ledger,
        batch_child="array:0",
        clock=(time or FakeTime()).clock,
        **more,
    )


def _found(backend: Any, region: str, name: str) -> Any:
    """Return the only backend, or that of a Region, or that with a name in a Region."""
    if not isinstance(backend, dict):
        return backend
    return backend[region, name] if (region, name) in backend else backend[region]


def known(ledger: Ledger) -> JobItem:
    item = ledger.job("0123abcd", 0)
    assert item is not None
    return item
