"""P2: cost of holding a job for an hour, from the deployed job definition and Fargate's prices."""

from typing import Any

from bench.world import World

DOLLARS_PER_VCPU_HOUR = 0.04048
DOLLARS_PER_GB_HOUR = 0.004445
DOLLARS_PER_ADDRESS_HOUR = 0.005
"""Price of a public IPv4 address, which both containers need (https://aws.amazon.com/vpc/pricing/)."""
PRICES = "AWS Fargate, Linux on x86, us-east-1, https://www.wring.co/blog/aws-fargate-pricing-guide of 10 March 2026"
"""Source of the prices, a third party's list; the official list is https://aws.amazon.com/fargate/pricing/."""
ORIGINAL_VCPU, ORIGINAL_GB = 2.0, 2.0
"""Container of the original recipe: 2 vCPU and 2 GB."""


def cost_of_holding(world: World) -> dict[str, Any]:
    """Return the cost per job-hour of the container in the synthesized job definition, in dollars.

    The public IPv4 address costs the same in both cases. The first ratio excludes it; the second includes it.
    """
    needs = {need["type"].upper(): float(need["value"]) for need in world.container()["resourceRequirements"]}
    vcpu, gigabytes = needs["VCPU"], needs["MEMORY"] / 1024
    ours, theirs = dollars_per_hour(vcpu, gigabytes), dollars_per_hour(ORIGINAL_VCPU, ORIGINAL_GB)
    return {
        "vcpu": vcpu,
        "gigabytes": gigabytes,
        "dollars_per_job_hour": round(ours, 5),
        "original_recipe_dollars_per_job_hour": round(theirs, 5),
        "times_less": round(theirs / ours, 2),
        "times_less_with_public_address": round(
            (theirs + DOLLARS_PER_ADDRESS_HOUR) / (ours + DOLLARS_PER_ADDRESS_HOUR), 2
        ),
        "prices": PRICES,
    }


def dollars_per_hour(vcpu: float, gigabytes: float) -> float:
    """Return the price of running a Fargate container for an hour."""
    return vcpu * DOLLARS_PER_VCPU_HOUR + gigabytes * DOLLARS_PER_GB_HOUR
