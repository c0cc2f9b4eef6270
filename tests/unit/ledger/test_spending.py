"""Spending: the dollars of attempts on SageMaker; attempts on EKS have no price."""

from typing import Any

import pytest

from traingrid.ledger.items import JobItem
from traingrid.ledger.spending import ended_dollars, running_dollars

NOW = 1_790_000_000
ITEM: dict[str, Any] = {
    "submission": "0123abcd",
    "item": "job#00000",
    "attempt": 2,
    "state": "InProgress",
    "name": "x",
    "region": "us-east-1",
    "opened_at": "2026-09-01T00:00:00Z",
    "hourly_dollars": 10.0,
    "running_hourly_dollars": 4.0,
    "training_started_at": NOW - 3600,
}
EARLIER = {"attempt": 1, "region": "us-east-1", "state": "Stopped", "billable_seconds": 1800}


@pytest.mark.parametrize(
    ("earlier", "current", "ended", "running"),
    [({}, {}, 5.0, 4.0), ({"backend": "eks"}, {}, 0.0, 4.0), ({}, {"backend": "eks"}, 5.0, 0.0)],
)
def test_only_attempts_on_sagemaker_cost_dollars(
    earlier: dict[str, str], current: dict[str, str], ended: float, running: float
) -> None:
    item = JobItem.from_item(ITEM | current | {"tried": [EARLIER | earlier]})
    assert (ended_dollars(item), running_dollars(item, NOW)) == (ended, running)
