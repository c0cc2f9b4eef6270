"""Grants: permissions, where each wildcard requires a reason, and reasons for deviations from scanners' rules."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from aws_cdk import Acknowledgment, Aws, CfnResource, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct

KEYS_OF_AWS = "Encrypted with keys that AWS owns, which are free of charge; IAM alone controls access"
"""Reason for not encrypting a resource with a customer managed key."""


def grant(
    role: iam.Role,
    actions: Sequence[str],
    resources: Sequence[str],
    *,
    conditions: Mapping[str, Any] | None = None,
    because: str = "",
) -> None:
    """Allow a role some actions on some resources.

    Args:
        resources: ARNs or their patterns.
        because: The reason for each "*" in `resources`. It is recorded as the acknowledgment of cdk-nag's rule IAM5 for
            exactly these resources, so that any other wildcard of the role is still a finding.

    Raises:
        ValueError: A wildcard has no reason, or a reason has no wildcard.
    """
    wildcards = [resource for resource in resources if "*" in resource]
    if bool(wildcards) != bool(because):
        raise ValueError(
            f"{role.node.path}: {list(actions)} on {list(resources)}: a wildcard requires `because`, others forbid it"
        )
    role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions))
    if wildcards:  # one call for all: every call crosses to Node.js and back, and grids of many Regions have many
        findings = [f"AwsSolutions-IAM5[Resource::{wildcard}]" for wildcard in texts_of_findings(role, wildcards)]
        Validations.of(role).acknowledge(*(Acknowledgment(id=finding, reason=because) for finding in findings))


def deny(role: iam.Role, actions: Sequence[str], *, conditions: Mapping[str, Any] | None = None) -> None:
    """Forbid a role some actions on all resources; a denial overrides all permissions. `conditions` are IAM's."""
    never = iam.PolicyStatement(effect=iam.Effect.DENY, actions=list(actions), resources=["*"], conditions=conditions)
    role.add_to_policy(never)


def same_account(arn: str) -> dict[str, dict[str, str]]:
    """Return a trust policy's conditions against the confused deputy: the service must act for this account.

    `arn` is the pattern of the resources on whose behalf the service may assume the role.
    """
    return {**this_account(), "ArnLike": {"aws:SourceArn": arn}}


def this_account() -> dict[str, dict[str, str]]:
    """Return the condition of a resource policy that a service acts on behalf of any resource of this account."""
    return {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}


def acknowledge(construct: IConstruct, rule: str, reason: str, *, checkov: str = "") -> None:
    """Record why a construct breaks a rule of cdk-nag.

    Args:
        rule: The rule's id, as the finding shows it.
        checkov: The id of checkov's equivalent rule, if it has one.
    """
    acknowledge_all(construct, {rule: reason})
    if checkov:
        skip_in_checkov(construct, checkov, reason)


def acknowledge_all(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Record why a construct breaks rules of cdk-nag: reasons by rule id, in a single call to Node.js."""
    Validations.of(construct).acknowledge(*(Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items()))


def skip_in_checkov(construct: IConstruct, rule: str, reason: str) -> None:
    """Record why a construct's default resource breaks a rule of checkov."""
    skip_all_in_checkov(construct, {rule: reason})


def skip_all_in_checkov(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Record why a construct's default resource breaks rules of checkov, in the resource's metadata.

    The form is checkov's (https://www.checkov.io/2.Basics/Suppressing%20and%20Skipping%20Policies.html).
    """
    resource = cast(CfnResource, construct.node.default_child)
    skipped = (resource.get_metadata("checkov") or {"skip": []})["skip"]
    new_rules = [{"id": rule, "comment": reason} for rule, reason in reasons.items()]
    resource.add_metadata("checkov", {"skip": [*skipped, *new_rules]})


def texts_of_findings(scope: IConstruct, values: Sequence[str]) -> list[str]:
    """Return strings with CDK tokens as in the ids of cdk-nag's findings: `<Queue.Arn>`, `<AWS::AccountId>`."""
    if not any("${" in value for value in values):  # without tokens, no call to Node.js is needed
        return list(values)
    return [_text_of_finding(value) for value in Stack.of(scope).resolve(list(values))]


def _text_of_finding(node: Any) -> str:
    match node:
        case str():
            return node.replace("${", "<").replace("}", ">")
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(_text_of_finding, parts))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
    raise TypeError(f"{node!r} has no flat form: the id of cdk-nag's finding cannot be predicted")
