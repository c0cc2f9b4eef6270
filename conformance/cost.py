"""Cost estimate of a run in an account, from the training instances that its claims use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.claim import Claim

INSTANCE_HOUR = 0.15
"""Dollars per hour of ml.m5.large, rounded up (price: https://aws.amazon.com/sagemaker/ai/pricing/)."""

BILLED_MINUTES = 4.0
"""Assumed billed minutes of one training job, mostly for pulling the image; its program takes seconds."""

EVERYTHING_ELSE = 0.35
"""Assumed dollars for Fargate (about 20 jobs of a minute with 0.25 vCPU), requests, storage, six keys for an hour, one
minute of a build, and one hour of a cluster of EKS without nodes ($0.10, https://aws.amazon.com/eks/pricing/)."""


def estimated_dollars(claims: Sequence[Claim]) -> float:
    """Return the maximum cost of checking these claims; shared training jobs are counted for each claim."""
    instances = sum(claim.trainings for claim in claims if not claim.why_documented)
    return round(instances * BILLED_MINUTES / 60 * INSTANCE_HOUR + EVERYTHING_ELSE, 2)
