"""CloudFormation: generated names, and replacement of resources with fixed names."""

import json
import re
from typing import Any

from conformance.aws import Aws
from conformance.claim import claim
from conformance.resources.identity import document
from conformance.resources.templates import Stack
from conformance.sources import page, schema

_NAMES = "https://github.com/KensioSoftware/yulin/issues/1113"
_TRUST = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
_LOGICAL_ID = "AnExecutionRoleWithAVeryLongName12AB34CD"


def _role(**properties: object) -> dict[str, object]:
    trust = json.loads(document(_TRUST))
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust, **properties}}


@claim(
    page(_NAMES, "It reserves 13 characters for a random tail and its hyphen"),
    used_by="stacks/event_forwarding.py stacks/replication.py",
)
def long_generated_name_is_25_25_12(aws: Aws) -> None:
    """A role name generated above 64 characters has 25 of the stack, 25 of the logical id and 12 random ones."""
    stack = Stack(aws, f"{aws.name('a-rather-long-stack-name')[:40]}")
    assert stack.deploy({_LOGICAL_ID: _role()}) == "CREATE_COMPLETE", stack.reasons()
    name = stack.id_of(_LOGICAL_ID)
    first, second = re.escape(stack.name[:25]), _LOGICAL_ID[:25]
    assert re.fullmatch(f"{first}-{second}-[A-Za-z0-9]{{12}}", name), name


@claim(
    page(_NAMES, "The two agree while the composed name fits the limit"),
    used_by="stacks/event_forwarding.py traingrid/names.py",
)
def short_generated_name_is_whole(aws: Aws) -> None:
    """A generated name within the limit is <stack>-<logical id>-<random>."""
    stack = Stack(aws)
    assert stack.deploy({"Short": _role()}) == "CREATE_COMPLETE", stack.reasons()
    assert stack.id_of("Short").startswith(f"{stack.name}-Short-"), stack.id_of("Short")


@claim(
    page(
        "https://github.com/awsdocs/aws-cloudformation-user-guide/issues/927",
        "cannot update a stack when a custom-named resource requires replacing",
    ),
    page(
        "https://github.com/aws-amplify/amplify-cli/issues/1866",
        "cannot update a stack when a custom-named resource requires replacing",
    ),
    schema("AWS::IAM::Role", '"/properties/Path"'),
    used_by="stacks/accounts.py stacks/budget.py docs/accounts.md",
)
def resource_of_a_fixed_name_cannot_be_replaced(aws: Aws) -> None:
    """An update that requires replacing a resource with a fixed name fails and is rolled back."""
    stack, name = Stack(aws), aws.name("fixed")
    assert stack.deploy({"Role": _role(RoleName=name, Path="/one/")}) == "CREATE_COMPLETE", stack.reasons()
    assert stack.deploy({"Role": _role(RoleName=name, Path="/two/")}) == "UPDATE_ROLLBACK_COMPLETE"
    assert aws.client("iam").get_role(RoleName=name)["Role"]["Path"] == "/one/"


@claim(
    page(
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-update-behaviors.html",
        "creates the replacement resource first",
    ),
    schema("AWS::IAM::Role", '"/properties/RoleName"'),
    used_by="stacks/accounts.py docs/accounts.md",
)
def other_name_is_another_resource(aws: Aws) -> None:
    """Changing a role's fixed name is a replacement: the new role is created first, and then the old one is deleted."""
    stack, iam = Stack(aws), aws.client("iam")
    before, after = aws.name("before"), aws.name("after")
    assert stack.deploy({"Role": _role(RoleName=before)}) == "CREATE_COMPLETE", stack.reasons()
    assert stack.deploy({"Role": _role(RoleName=after)}) == "UPDATE_COMPLETE", stack.reasons()
    assert stack.id_of("Role") == after
    aws.wait(lambda: _gone(iam, before), "the end of the old role", seconds=aws.seconds(120))
    events = stack.api.describe_stack_events(StackName=stack.name)["StackEvents"]
    deleted = [event for event in events if event["ResourceStatus"] == "DELETE_COMPLETE"]
    assert [event["PhysicalResourceId"] for event in deleted] == [before]


def _gone(iam: Any, name: str) -> bool:
    try:
        iam.get_role(RoleName=name)
    except iam.exceptions.NoSuchEntityException:
        return True
    return False
