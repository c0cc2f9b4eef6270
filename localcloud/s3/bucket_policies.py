"""Bucket policies: evaluation of their conditions on the transport."""

import json
from typing import TYPE_CHECKING, Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket

from localcloud.iam.conditions import conditions_hold
from localcloud.iam.resource_denials import OVER_TLS

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_TRANSPORT = OVER_TLS | {"s3:TlsVersion": "1.2"}
"""The only condition keys of a request here: a call to localcloud stands for one over TLS 1.2."""


def install(cloud: "LocalCloud") -> None:
    """Evaluate conditions.

    moto 5.2.5 assumes that every condition in a bucket policy is met, so the usual Deny without TLS
    (`aws:SecureTransport` false) denies every request. moto has no hook there, so the method is replaced. Statements
    with conditions on other keys do not apply.
    """
    cloud.replace(FakeBucket, get_permission=permission)


def permission(bucket: Any, action: str, resource: str) -> PermissionResult:
    """Return the decision of the statements of a bucket's policy whose conditions a request over TLS 1.2 meets.

    Args:
        bucket: moto's bucket.
        action: For example "s3:PutObject".
        resource: ARN of the object.
    """
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = json.loads(bucket.policy)
    statements = policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    applying = [statement for statement in statements if _applies(statement.get("Condition", {}))]
    if not applying:
        return PermissionResult.NEUTRAL
    plain = [{name: value for name, value in applied.items() if name != "Condition"} for applied in applying]
    return IAMPolicy(json.dumps({**policy, "Statement": plain})).is_action_permitted(action, resource)


def _applies(conditions: dict[str, dict[str, Any]]) -> bool:
    keys = {key for keys_of_operator in conditions.values() for key in keys_of_operator}
    return keys <= _TRANSPORT.keys() and conditions_hold(conditions, _TRANSPORT)
