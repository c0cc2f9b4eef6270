"""Spending: the dollars that the attempts of a job have cost, from the ledger alone.

Only jobs of a submission with a budget have the prices. SageMaker bills the time from TrainingStartTime to
TrainingEndTime; for an ended training job, BillableTimeInSeconds, which is less for spot instances, for each instance
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html). Transfer, storage and
orchestration are not counted, and neither are attempts on EKS: the user pays for the nodes of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.job.backend_traits import TRAITS
from traingrid.job.state import FINAL_STATES

if TYPE_CHECKING:
    from traingrid.ledger.items import JobItem

_HOUR = 3600.0


def ended_dollars(item: JobItem) -> float:
    """Return the dollars of the ended attempts of a job, whether traingrid or a user retried them."""
    if not item.hourly_dollars:
        return 0.0
    billed = (attempt for attempt in item.attempts().values() if TRAITS[attempt.backend].has_prices)
    seconds = sum(attempt.billable_seconds or 0 for attempt in billed)
    return seconds / _HOUR * item.hourly_dollars


def running_dollars(item: JobItem, now: float) -> float:
    """Return the dollars of the running attempt of a job so far; 0 if it has not started or has ended.

    Args:
        now: The time in seconds since 1970.
    """
    if not is_running(item) or not item.training_started_at:
        return 0.0
    hourly = item.hourly_dollars if item.on_demand else item.running_hourly_dollars
    return max(now - item.training_started_at, 0.0) / _HOUR * hourly


def is_running(item: JobItem) -> bool:
    """Return True if the current attempt of a job has a price, and has not ended as far as the ledger records."""
    is_priced = bool(item.hourly_dollars) and TRAITS[item.backend].has_prices
    return is_priced and item.state not in FINAL_STATES and "billable_seconds" not in item.stored
