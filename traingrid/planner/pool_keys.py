"""Pool keys: the Region, instance type and purchase option that identify a pool, and its name for people."""

from traingrid.names import name_of_arn

PoolKey = tuple[str, str, str]
"""A Region, an instance type and a purchase option: on demand, spot, or the ARN of a training plan."""
ON_DEMAND, SPOT = "on_demand", "spot"


def is_paid(option: str) -> bool:
    """Return True if a purchase option is the ARN of a training plan, whose hours are paid in advance."""
    return option not in (ON_DEMAND, SPOT)


def pool_text(key: PoolKey) -> str:
    """Return the name of a pool for people: "ml.p5.48xlarge (on demand) in us-east-1"."""
    region, instance_type, option = key
    return f"{instance_type} ({plan_text(option) if is_paid(option) else option.replace('_', ' ')}) in {region}"


def plan_text(arn: str) -> str:
    """Return the name of a training plan for people: "training plan november"."""
    return f"training plan {name_of_arn(arn)}"
