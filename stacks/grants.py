"""Giving permissions, so that a wildcard cannot be given without its reason."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from aws_cdk import Acknowledgment, Aws, CfnResource, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct

KEYS_OF_AWS = "Encrypted with keys that AWS keeps, which cost nothing; IAM alone decides who reads"
"""Why something is not encrypted with a customer managed key."""


def grant(
    role: iam.Role,
    actions: Sequence[str],
    resources: Sequence[str],
    *,
    conditions: Mapping[str, Any] | None = None,
    because: str = "",
) -> None:
    """Allow a role some actions on some resources.

    `because` is the reason of a "*" in `resources`. It is recorded as the acknowledgment of cdk-nag's rule IAM5 on that
    very resource, so another wildcard of the same role is still a finding. `conditions` are IAM's.
    Raises ValueError for a wildcard without a reason, and for a reason without a wildcard.
    """
    wildcards = [resource for resource in resources if "*" in resource]
    if bool(wildcards) != bool(because):
        raise ValueError(
            f"{role.node.path}: {list(actions)} on {list(resources)}: a wildcard needs `because`, only that"
        )
    role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions))
    if wildcards:  # one call for all: every call crosses to Node.js and back, and many Regions have many wildcards
        findings = [f"AwsSolutions-IAM5[Resource::{wildcard}]" for wildcard in flat(role, wildcards)]
        Validations.of(role).acknowledge(*(Acknowledgment(id=finding, reason=because) for finding in findings))


def deny(role: iam.Role, actions: Sequence[str], *, conditions: Mapping[str, Any] | None = None) -> None:
    """Forbid a role some actions everywhere, whatever else it is allowed; `conditions` are IAM's."""
    never = iam.PolicyStatement(effect=iam.Effect.DENY, actions=list(actions), resources=["*"], conditions=conditions)
    role.add_to_policy(never)


def same_account(arn: str) -> dict[str, dict[str, str]]:
    """Return the conditions of a trust policy that keep a service from acting for another account (confused deputy).

    `arn` is the pattern of the resources on whose behalf the service may assume the role.
    """
    return {**this_account(), "ArnLike": {"aws:SourceArn": arn}}


def this_account() -> dict[str, dict[str, str]]:
    """Return the condition of a resource's policy that a service acts for this account, whatever it acts for there."""
    return {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}


def acknowledge(construct: IConstruct, rule: str, reason: str, *, checkov: str = "") -> None:
    """Record why a construct breaks a rule of cdk-nag; `rule` is the id that the finding shows.

    `checkov` is checkov's rule for the same matter, if it has one.
    """
    acknowledge_all(construct, {rule: reason})
    if checkov:
        skip_in_checkov(construct, checkov, reason)


def acknowledge_all(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Record why a construct breaks rules of cdk-nag, by their ids, in one call to Node.js."""
    Validations.of(construct).acknowledge(*(Acknowledgment(id=rule, reason=why) for rule, why in reasons.items()))


def skip_in_checkov(construct: IConstruct, rule: str, reason: str) -> None:
    """Record why a construct's own resource breaks a rule of checkov."""
    skip_all_in_checkov(construct, {rule: reason})


def skip_all_in_checkov(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Record why a construct's own resource breaks rules of checkov, which reads that in the resource's metadata
    (https://www.checkov.io/2.Basics/Suppressing%20and%20Skipping%20Policies.html)."""
    resource = cast(CfnResource, construct.node.default_child)
    skipped = (resource.get_metadata("checkov") or {"skip": []})["skip"]
    added = [{"id": rule, "comment": reason} for rule, reason in reasons.items()]
    resource.add_metadata("checkov", {"skip": [*skipped, *added]})


def flat(scope: IConstruct, values: Sequence[str]) -> list[str]:
    """Return strings with CDK tokens as cdk-nag writes them in a finding's id: `<Queue.Arn>`, `<AWS::AccountId>`."""
    if not any("${" in value for value in values):  # no token is in them, and nothing to ask Node.js for
        return list(values)
    return [_flat(value) for value in Stack.of(scope).resolve(list(values))]


def _flat(node: Any) -> str:
    match node:
        case str():
            return node.replace("${", "<").replace("}", ">")
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(_flat, parts))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
    raise TypeError(f"no flat form of {node!r}: cdk-nag would write something that nobody can predict")
