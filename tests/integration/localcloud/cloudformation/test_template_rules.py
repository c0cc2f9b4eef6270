"""Requests with templates that CloudFormation refuses, and the nearest that it accepts."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.cloudformation.resource_schemas import resource_schema
from localcloud.cloudformation.template_rules import MAX_BODY, MAX_RESOURCES, check_name, check_size, check_template

ROLE = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
NAMED = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}, "RoleName": "mine"}}
TOPIC: dict[str, Any] = {"Type": "AWS::SNS::Topic"}


def topics(count: int) -> dict[str, Any]:
    return {f"T{number}": TOPIC for number in range(count)}


def reading(value: Any) -> dict[str, Any]:
    return {"T": {**TOPIC, "Properties": {"TopicName": value}}}


@pytest.mark.parametrize(
    ("resources", "refusal"),
    [
        (topics(MAX_RESOURCES + 1), "Number of resources, 501, is greater than maximum allowed, 500"),
        (reading({"Ref": "Nowhere"}), r"Unresolved resource dependencies \[Nowhere\] in the Resources block"),
        (reading({"Fn::GetAtt": ["Nowhere", "Arn"]}), r"dependencies \[Nowhere\]"),
        (reading({"Fn::Sub": "${Nowhere}"}), r"dependencies \[Nowhere\]"),
        ({"T": {**TOPIC, "DependsOn": "Nowhere"}}, r"dependencies \[Nowhere\]"),
        ({"T": {**TOPIC, "DependsOn": "T"}}, "Circular dependency"),
        ({"A": {**TOPIC, "DependsOn": "B"}, "B": {**TOPIC, "DependsOn": ["A"]}}, "Circular dependency"),
    ],
)
def test_a_template_with_too_much_or_unknown_references_is_refused(resources: dict[str, Any], refusal: str) -> None:
    with pytest.raises(Exception, match=refusal):
        check_template({"Resources": resources}, [])


@pytest.mark.parametrize(
    "resources",
    [
        topics(MAX_RESOURCES),
        reading({"Ref": "AWS::StackName"}),
        reading({"Ref": "P"}),
        reading({"Fn::Sub": ["${P}-${own}-${!literal}-${AWS::Region}", {"own": "x"}]}),
        {"A": {**TOPIC, "DependsOn": "B"}, "B": TOPIC},
    ],
)
def test_a_template_within_the_rules_is_accepted(resources: dict[str, Any]) -> None:
    check_template({"Parameters": {"P": {"Type": "String"}}, "Resources": resources}, [])


@pytest.mark.parametrize(
    ("role", "stated", "needed"),
    [
        (ROLE, [], "CAPABILITY_IAM"),
        (NAMED, [], "CAPABILITY_NAMED_IAM"),
        (NAMED, ["CAPABILITY_IAM"], "CAPABILITY_NAMED_IAM"),
        (ROLE, ["CAPABILITY_IAM"], ""),
        (ROLE, ["CAPABILITY_NAMED_IAM"], ""),
        (NAMED, ["CAPABILITY_NAMED_IAM"], ""),
    ],
)
def test_roles_require_a_capability(role: dict[str, Any], stated: list[str], needed: str) -> None:
    template = {"Resources": {"R": role}}
    if needed:
        with pytest.raises(Exception, match=rf"Requires capabilities : \[{needed}\]"):
            check_template(template, stated)
    else:
        check_template(template, stated)


def test_names_and_sizes_have_limits() -> None:
    check_name("a-Stack1")
    check_size("x" * MAX_BODY, MAX_BODY)
    for name in ("1s", "a_b", "a" * 129, ""):
        with pytest.raises(Exception, match="at 'stackName' failed"):
            check_name(name)
    with pytest.raises(Exception, match="less than or equal to 51200"):
        check_size("\u00e9" * (MAX_BODY // 2 + 1), MAX_BODY)


def test_a_resource_has_only_the_properties_of_its_type_and_all_required_ones() -> None:
    schema = resource_schema("AWS::Lambda::Function")
    assert schema.violations({"Code": {"S3Bucket": "b"}, "Role": "r"}) == []
    assert schema.violations({"Code": {"Zip": "b"}, "Rolle": "r"}) == [
        "#/Code: extraneous key [Zip] is not permitted",
        "#: extraneous key [Rolle] is not permitted",
        "#: required key [Role] not found",
    ]
    assert resource_schema("Custom::Anything").violations({"any": 1}) == []
    assert resource_schema("AWS::CloudFormation::CustomResource").violations({"ServiceToken": "t", "any": 1}) == []


def test_a_refused_request_creates_no_stack(client: Any) -> None:
    stacks = client("cloudformation")
    for create in (stacks.create_stack, lambda **words: stacks.create_change_set(ChangeSetName="c", **words)):
        with pytest.raises(ClientError, match="InsufficientCapabilities"):
            create(StackName="refused", TemplateBody=json.dumps({"Resources": {"R": ROLE}}))
    with pytest.raises(ClientError, match="does not exist"):
        stacks.describe_stacks(StackName="refused")
