"""Template rules: what CloudFormation refuses in a request with a template before it creates anything.

The limits are those of https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html, the
form of names and the capabilities those of
https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html. The sentences are AWS's:
https://github.com/clebert/aws-simple/issues/98 (resources), https://github.com/envato/stack_master/issues/138
(capabilities).
"""

import re
from collections.abc import Iterator
from typing import Any

from moto.cloudformation.exceptions import CloudFormationError, ValidationError

from localcloud.cloudformation.templates import deployment_order, references

MAX_BODY, MAX_OBJECT, MAX_RESOURCES = 51_200, 1_048_576, 500
"""Bytes of a template in a request and in S3, and resources of a template."""
_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}")
_CUSTOM_NAMES = {
    "AWS::IAM::AccessKey": None,
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Policy": None,
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::UserToGroupAddition": None,
}
"""The types that require a capability, with the property of a custom name."""


class InsufficientCapabilitiesError(CloudFormationError):
    """A template with IAM resources needs a capability that the request does not state."""

    code = "InsufficientCapabilitiesException"


def check_name(name: str) -> None:
    """Raise ValidationError if a new stack cannot have this name."""
    if not _NAME.fullmatch(name):
        message = (
            f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: Member must "
            "have length less than or equal to 128, and satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*"
        )
        raise ValidationError(message=message)


def check_size(text: str, limit: int) -> None:
    """Raise ValidationError if a template has more than `limit` bytes."""
    if len(text.encode()) > limit:
        message = (
            "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must have "
            f"length less than or equal to {limit}"
        )
        raise ValidationError(message=message)


def check_template(template: dict[str, Any], capabilities: list[str]) -> None:
    """Check the resources of a template.

    Args:
        template: The parsed template.
        capabilities: The capabilities that the request states.

    Raises:
        ValidationError: There are too many resources, or their references are circular or lead nowhere.
        InsufficientCapabilitiesError: An IAM resource requires a capability that is not stated.
    """
    resources = template.get("Resources") or {}
    if len(resources) > MAX_RESOURCES:
        message = f"Number of resources, {len(resources)}, is greater than maximum allowed, {MAX_RESOURCES}"
        raise ValidationError(message=f"Template format error: {message}")
    names = {*resources, *template.get("Parameters", {})}
    for block in ("Resources", "Outputs"):
        missing = sorted({name for name in references(template.get(block, {})) if not _exists(name, names)})
        if missing:
            message = f"Unresolved resource dependencies [{', '.join(missing)}] in the {block} block of the template"
            raise ValidationError(message=f"Template format error: {message}")
    deployment_order(resources)
    needed = set(_capabilities(resources)) - set(capabilities)
    if needed == {"CAPABILITY_IAM"} and "CAPABILITY_NAMED_IAM" in capabilities:
        return
    if needed:
        raise InsufficientCapabilitiesError(f"Requires capabilities : [{max(needed, key=len)}]")


def _exists(name: str, names: set[str]) -> bool:
    return name in names or name.startswith("AWS::")


def _capabilities(resources: dict[str, Any]) -> Iterator[str]:
    for resource in resources.values():
        if resource["Type"] in _CUSTOM_NAMES:
            has_name = _CUSTOM_NAMES[resource["Type"]] in resource.get("Properties", {})
            yield "CAPABILITY_NAMED_IAM" if has_name else "CAPABILITY_IAM"
