"""Orchestration cost: computes the cost of the child that starts and watches a training job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traingrid.grid.orchestrator import Orchestrator

VCPU_HOUR, GB_HOUR, ADDRESS_HOUR = 0.04048, 0.004445, 0.005
"""US dollars in us-east-1 for Fargate on Linux and x86, from https://www.wring.co/blog/aws-fargate-pricing-guide on
10 March 2026 (AWS's own page is https://aws.amazon.com/fargate/pricing/), and for the child's public IPv4 address
(https://aws.amazon.com/vpc/pricing/)."""
_MINIMUM_SECONDS = 60.0
"""Fargate bills a task by the second, with a minimum of one minute (the same page)."""


def dollars(size: Orchestrator, seconds: float) -> float:
    """Return the cost in US dollars of a child with the given size and duration, at the prices of us-east-1."""
    hourly = size.vcpu * VCPU_HOUR + size.memory_mib / 1024 * GB_HOUR + ADDRESS_HOUR
    return hourly * max(seconds, _MINIMUM_SECONDS) / 3600


def sentence(size: Orchestrator, seconds: float) -> str:
    """Return the cost report that a child prints when it ends."""
    resources = f"{size.vcpu:g} vCPU, {size.memory_mib:g} MiB and an address for {seconds:.0f} s"
    price = f"${VCPU_HOUR} per vCPU-hour, ${GB_HOUR} per GB-hour, ${ADDRESS_HOUR} per address-hour"
    return f"this child's own cost: {resources}: ${dollars(size, seconds):.6f} ({price}, us-east-1, March 2026)"
