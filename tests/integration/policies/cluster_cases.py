"""Permissions for EKS clusters: a role that uses a cluster's API may find that cluster, and no role may change one."""

from collections.abc import Iterator

from tests.integration.policies.case import RESOURCE, Caller, Case
from tests.integration.policies.grid import ACCOUNT, CLUSTER, FREE, INSIDE

DESCRIBE = "eks:DescribeCluster"
ARN = f"arn:aws:eks:{INSIDE}:{ACCOUNT}:cluster/{CLUSTER}"
ENTRY = f"arn:aws:eks:{INSIDE}:{ACCOUNT}:access-entry/{CLUSTER}/role/{ACCOUNT}/traingrid-child/0a1b"
CHANGES = {
    "CreateAccessEntry": ARN,
    "UpdateAccessEntry": ENTRY,
    "AssociateAccessPolicy": ENTRY,
    "CreatePodIdentityAssociation": ARN,
    "UpdateClusterConfig": ARN,
    "DeleteCluster": ARN,
}
"""Actions with which a role could create a cluster's access, or take it from others, and their resources."""


def cases() -> Iterator[Case]:
    for role in ("child", "reconciler", "region guard"):
        yield from of_a_user(Caller(role))
    for role in ("intake", "recorder", "registrar", "training job"):
        yield Caller(role).may_not("find the cluster", DESCRIBE, ARN)


def of_a_user(caller: Caller) -> Iterator[Case]:
    """Yield the cases of a role that uses the cluster's API."""
    yield caller.may("find the cluster of its Region", DESCRIBE, ARN)
    for other in (f"{ARN}2", ARN.replace(INSIDE, FREE), ARN.replace(ACCOUNT, "999999999999")):
        yield caller.may_not(f"find {other[12:]}", DESCRIBE, other, breaks=RESOURCE)
    for action, resource in CHANGES.items():
        yield caller.may_not("change access to the cluster", f"eks:{action}", resource)
    yield caller.may_not("create a cluster", "eks:CreateCluster", "*")
