"""Training plans: reads the capacity that an account has reserved in SageMaker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import client

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traingrid.aws.clients import ActingRole

ACTIVE, SCHEDULED = "Active", "Scheduled"
USABLE = (ACTIVE, SCHEDULED)
"""The states in which a training job may use a plan; in `Scheduled` the job waits until the plan is active
(https://docs.aws.amazon.com/sagemaker/latest/dg/training-plan-utilization-for-training-jobs.html)."""
_TRAINING_JOB = "training-job"
"""The target of plans for training jobs; plans for other resources cannot be used by training jobs
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingPlanSummary.html)."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """A training plan that training jobs may use.

    Attributes:
        instance_types: The instance types of its reserved capacities.
        instances: The instances that are available; before its start, all of its instances.
        starts_at: Its start, if SageMaker reports one.
        ends_at: Its end, if SageMaker reports one.
        status: Active or Scheduled.
    """

    arn: str
    instance_types: tuple[str, ...]
    instances: int
    starts_at: datetime | None
    ends_at: datetime | None
    status: str


def training_plans(region: str, role: ActingRole | None = None) -> list[TrainingPlan]:
    """Return the training plans of a Region that training jobs may use now or at their start.

    Args:
        role: The role to assume in another account.

    Raises:
        ClientError: AWS refuses the request.
        BotoCoreError: AWS does not answer.
    """
    pages = client("sagemaker", region, role).get_paginator("list_training_plans").paginate()
    summaries = [summary for page in pages for summary in page["TrainingPlanSummaries"]]
    return [
        _plan(summary)
        for summary in summaries
        if summary["Status"] in USABLE and _TRAINING_JOB in summary.get("TargetResources", [_TRAINING_JOB])
    ]


def _plan(summary: Mapping[str, Any]) -> TrainingPlan:
    kinds = (capacity["InstanceType"] for capacity in summary.get("ReservedCapacitySummaries", []))
    count_field = "AvailableInstanceCount" if summary["Status"] == ACTIVE else "TotalInstanceCount"
    return TrainingPlan(
        arn=summary["TrainingPlanArn"],
        instance_types=tuple(dict.fromkeys(kinds)),
        instances=summary.get(count_field, 0),
        starts_at=summary.get("StartTime"),
        ends_at=summary.get("EndTime"),
        status=summary["Status"],
    )
