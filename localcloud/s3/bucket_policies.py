"""Bucket policies: evaluation without the statements that have conditions."""

import json
from typing import TYPE_CHECKING, Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Ignore statements that have conditions.

    moto 5.2.5 assumes that every condition in a bucket policy is met, so the usual Deny without TLS
    (`aws:SecureTransport` false) denies every request. moto has no hook there, so the method is replaced. Statements
    without a condition apply as before.
    """
    cloud.replace(FakeBucket, get_permission=permission)


def permission(bucket: Any, action: str, resource: str) -> PermissionResult:
    """Return the decision of the unconditional statements of a bucket's policy.

    Args:
        bucket: moto's bucket.
        action: For example "s3:PutObject".
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
