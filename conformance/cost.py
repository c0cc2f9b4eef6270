"""What a run costs in an account, estimated from the training instances that its claims need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.claim import Claim

INSTANCE_HOUR = 0.15
"""Dollars for an hour of ml.m5.large, rounded up (https://aws.amazon.com/sagemaker/ai/pricing/ has the price)."""

BILLED_MINUTES = 4.0
"""Assumed for one training job of the suite: the image is pulled within it, and its program takes seconds."""

EVERYTHING_ELSE = 0.25
"""Dollars assumed for Fargate (about 20 jobs of a minute with 0.25 vCPU), requests, storage and one key for a day."""


def estimated_dollars(claims: Sequence[Claim]) -> float:
    """Return what checking these claims costs at the most: no training job is counted as shared."""
    instances = sum(claim.trainings for claim in claims if not claim.why_documented)
    return round(instances * BILLED_MINUTES / 60 * INSTANCE_HOUR + EVERYTHING_ELSE, 2)
