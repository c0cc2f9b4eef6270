"""Configurations: the grids that all posture checks run on, one per line."""

from typing import Any

from tests.integration.stacks.templates import REGIONS, a_grid
from traingrid.grid.model import GridSettings

TRAINING = {"repository": "training", "tag": "1"}
CONTAINERS = "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training"
"""AWS's deep-learning containers."""

IMAGES: dict[str, Any] = {"resnet": TRAINING, "bert": {"repository": "language", "tag": "7"}}
BUILT: dict[str, Any] = {target: {"build": "training", "target": target} for target in ("cpu", "gpu", "torch")}
ON_GPUS = {"image": "gpu", "instance_type": "ml.g5.48xlarge"}
WATCH_BRIEFLY: dict[str, Any] = {"watch": "until_started", "max_vcpus": 2500}
LARGE_CHILDREN: dict[str, Any] = {"vcpu": 4.0, "memory_mib": 30720, "max_vcpus": 4, "image_tag": "2026-11"}
OWN_BUCKETS: dict[str, Any] = {
    "us-west-2": {"data_buckets": ["campaigns-pdx"]},
    "eu-west-1": {"data_buckets": ["a.b.c"]},
}
ALGORITHM = "arn:aws:sagemaker:{region}:123456789012:algorithm/ours"

EXISTING: dict[str, Any] = {
    "kind": "existing",
    "vpc": "vpc-0a1b2c3d",
    "subnets": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"],
}

ZONES: dict[str, Any] = {"kind": "private", "zones": ["us-east-1c", "us-east-1d"]}

OWN_KEYS = {
    region: f"arn:aws:kms:{region}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab" for region in REGIONS[:2]
}
CONFINED: dict[str, Any] = {
    "us-east-1": {
        "subnets": ["subnet-0a1b2c3d"],
        "security_groups": ["sg-0a1b2c3d"],
        "file_systems": {"fs-0a1b2c3d": "EFS", "fs-0a1b2c3e": "FSxLustre"},
        "data_keys": [OWN_KEYS["us-east-1"]],
    },
    "us-west-2": None,
}
HOME, OTHER = "123456789012", "210987654321"
ELSEWHERE: dict[str, Any] = {"us-east-1": {"account": OTHER}, "us-west-2": None}
"""The home Region trains in another account."""
SUBSCRIBED = {"emails": ["ml-on-call@example.com"], "monthly_budget_usd": 20_000}

QUEUE: dict[str, Any] = {"service_queue": {"instances": 16}}
QUOTA: dict[str, Any] = {
    "service_queue": {
        "quota_shares": {"research": {"ml.g5.48xlarge": 4}, "production": {"ml.g5.48xlarge": 12}},
        "lend": True,
    }
}
QUEUED = {"image": "resnet", "instance_type": "ml.g5.48xlarge", "launch": "queued"}
SHARES = {"research": 1, "production": 4}
CLUSTER: dict[str, Any] = {"eks": {"cluster": "research"}}
MPI_CLUSTER: dict[str, Any] = {
    "eks": {"cluster": "gpus", "namespace": "training", "service_account": "jobs", "kind": "mpijob", "queue": "gpus"}
}

CONFIGURATIONS: dict[str, GridSettings] = {
    "one Region, at home": a_grid(1),
    "two Regions": a_grid(2),
    "two Regions, home elsewhere": a_grid({"eu-central-1": None, "ap-northeast-1": None}, home="eu-west-1"),
    "images by URI, registries and algorithms": a_grid(
        2,
        images=IMAGES | {"dlc": {"uri": f"{CONTAINERS}:2.14-gpu"}},
        image_registries=[CONTAINERS],
        algorithms=["our-algorithm", ALGORITHM],
    ),
    "children that leave, logs for a day, training plans and remote debugging": a_grid(
        {"us-east-1": {"training_plans": ["november", "december"]}, "us-west-2": None},
        orchestrator=WATCH_BRIEFLY,
        log_retention_days=1,
        training={"remote_debug": True},
    ),
    "large children, logs for ten years": a_grid(1, orchestrator=LARGE_CHILDREN, log_retention_days=3653),
    "private network": a_grid(2, network="private"),
    "private network in chosen zones": a_grid(2, network=ZONES),
    "existing network": a_grid(2, network=EXISTING),
    "reconciler in an existing network": a_grid(2, network=EXISTING | {"reconciler": True}),
    "keys": a_grid(2, encryption="kms"),
    "existing keys": a_grid(2, encryption={"kind": "kms", "keys": OWN_KEYS}),
    "training in a VPC, isolated": a_grid(CONFINED, training={"network_isolation": True, "max_runtime": "5d"}),
    "catalog in Aurora DSQL": a_grid(1, catalog="dsql"),
    "emails and a budget": a_grid(2, alarms=SUBSCRIBED),
    "notifications and keys": a_grid(1, notifications={}, encryption="kms"),
    "notifications and more emails": a_grid(
        2,
        notifications={"emails": ["team@example.com"]},
        alarms={**SUBSCRIBED, "emails": ["ml-on-call@example.com", "head@example.com"]},
    ),
    "training images built, manual replication rules": a_grid(2, images=BUILT, job=ON_GPUS, replicate_images=False),
    "training images built, with keys": a_grid(6, images=BUILT, job=ON_GPUS, encryption="kms"),
    "copies between custom data buckets": a_grid(OWN_BUCKETS, moves=True),
    "copies within a residency": a_grid({"us-east-1": {"residency": ["us"]}, "eu-west-1": None}, moves=True),
    "copies, keys, custom data buckets and private network": a_grid(
        OWN_BUCKETS, home="us-west-2", moves=True, encryption="kms", network="private"
    ),
    "two accounts, keys and private network": a_grid(
        {"us-west-2": {"account": OTHER}, "eu-west-1": None}, account=HOME, encryption="kms", network="private"
    ),
    "two accounts, manual replication rules": a_grid(ELSEWHERE, account=HOME, replicate_images=False),
    "service queues in twelve Regions": a_grid(dict.fromkeys(REGIONS, QUEUE), job=QUEUED),
    "quota shares that lend": a_grid({"us-east-1": QUOTA, "us-west-2": QUEUE}, shares=SHARES, network="private"),
    "clusters, one with MPI jobs and a queue": a_grid({"us-east-1": CLUSTER, "eu-west-1": MPI_CLUSTER}),
    "a cluster in another account, keys and private network": a_grid(
        {"us-east-1": CLUSTER, "eu-west-1": {"account": OTHER, **MPI_CLUSTER, "backend": "eks"}},
        account=HOME,
        encryption="kms",
        network="private",
    ),
    "shared home queue": a_grid(1, shares=SHARES, encryption="kms"),
    "the longest name": a_grid({REGIONS[5]: QUEUE}, name="a" * 24, home="ap-northeast-3"),
}

COVERING = (
    "one Region, at home",
    "two Regions",
    "reconciler in an existing network",
    "training in a VPC, isolated",
    "catalog in Aurora DSQL",
    "emails and a budget",
    "notifications and keys",
    "training images built, manual replication rules",
    "copies, keys, custom data buckets and private network",
    "two accounts, keys and private network",
    "quota shares that lend",
    "a cluster in another account, keys and private network",
)
"""The configurations that `make test` checks: together, they have nearly every kind of resource. `make test-all` checks
the others."""


def of_lane(lane: str | None) -> tuple[str, ...]:
    """Return the names of the configurations that a lane checks (tests/support/lanes.py)."""
    others = tuple(name for name in CONFIGURATIONS if name not in COVERING)
    return {"product": COVERING, "rest": others, None: tuple(CONFIGURATIONS)}[lane]
