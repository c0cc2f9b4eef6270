"""Bucket policies, without the statements whose conditions cannot hold or fail on this machine."""

import json
from typing import TYPE_CHECKING, Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: "LocalCloud") -> None:  # noqa: ARG001 - every feature is installed alike
    """Leave conditional statements out of account.

    moto 5.2.5 takes every condition in a bucket policy as met, so that the usual Deny without TLS
    (`aws:SecureTransport` false) locks everybody out. It has no seam there, so the method is replaced. Statements
    without a condition count as before.
    """
    FakeBucket.get_permission = permission


def permission(bucket: Any, action: str, resource: str) -> PermissionResult:
    """What the unconditional statements of a bucket's policy say.

    Args:
        bucket: moto's bucket.
        action: E.g. "s3:PutObject".
        resource: ARN of the object.
    """
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = json.loads(bucket.policy)
    listed = policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    unconditional = [statement for statement in listed if "Condition" not in statement]
    if not unconditional:
        return PermissionResult.NEUTRAL
    return IAMPolicy(json.dumps({**policy, "Statement": unconditional})).is_action_permitted(action, resource)
