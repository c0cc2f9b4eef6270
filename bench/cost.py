"""P2: what it costs to hold a job for an hour, from the deployed job definition and Fargate's prices."""

from typing import Any

from bench.world import World

DOLLARS_PER_VCPU_HOUR = 0.04048
DOLLARS_PER_GB_HOUR = 0.004445
DOLLARS_PER_ADDRESS_HOUR = 0.005
"""A public IPv4 address, which both ways need alike (https://aws.amazon.com/vpc/pricing/)."""
PRICES = "AWS Fargate, Linux on x86, us-east-1, https://www.wring.co/blog/aws-fargate-pricing-guide of 10 March 2026"
"""Somebody else's list; https://aws.amazon.com/fargate/pricing/ is the place to check them."""
ORIGINAL_VCPU, ORIGINAL_GB = 2.0, 2.0
"""The container of the original recipe: 2 vCPU and 2 GB."""


def cost_of_holding(world: World) -> dict[str, Any]:
    """Return the dollars per job-hour of the container that `cdk synth` wrote into the job definition.

    The public IPv4 address, which costs the same either way, is left out of the ratio and counted in a second one.
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
    """Return the price of a Fargate container that runs for an hour."""
    return vcpu * DOLLARS_PER_VCPU_HOUR + gigabytes * DOLLARS_PER_GB_HOUR
