"""Updates of a stack as in CloudFormation: in place, by replacement, or refused."""

from collections.abc import Callable
from typing import Any

import pytest

from localcloud.cloudformation.context import Clients, Context
from tests.integration.localcloud.cloudformation.test_cloudformation import UNKNOWN, body, outputs, stack, trust

Make = Callable[..., Any]


@pytest.fixture
def stacks(client: Make) -> Any:
    return client("cloudformation")


def reason(stacks: Any, name: str) -> str:
    return str(stack(stacks, name)["StackStatusReason"])


@pytest.mark.parametrize(
    ("stack_name", "logical_id", "longest", "expected"),
    [  # names from real accounts, except their random suffixes
        ("ChineseboostAnalyticsStack", "RainlyticsSummariesJobFunctionServiceRole", 64,
         "ChineseboostAnalyticsStac-RainlyticsSummariesJobFun-"),
        ("ChineseboostAnalyticsStack", "RainlyticsLogsBucket8DF4ABCDEF", 63,
         "ChineseboostAnalyticsStac-RainlyticsLogsBucket8DF4-"),
        ("ChineseboostAnalyticsStack", "RainlyticsSummariesJobLogs1C6CB09C", 512,
         "ChineseboostAnalyticsStack-RainlyticsSummariesJobLogs1C6CB09C-"),
        ("short", "RainlyticsSummariesJobFunctionServiceRoleOfALongName", 64,
         "short-RainlyticsSummariesJobFunctionServiceRoleOfAL-"),
        ("a-stack-whose-name-is-very-long-indeed-and-longer", "Rule", 64,
         "a-stack-whose-name-is-very-long-indeed-and-lon-Rule-"),
    ],
)  # fmt: skip
def test_stack_name_and_logical_id_share_the_length_of_a_generated_name(
    stack_name: str, logical_id: str, longest: int, expected: str
) -> None:
    clients: Clients = object()  # type: ignore[assignment] # not called
    name = Context(clients, "1", "us-east-1", stack_name, "id", logical_id).name(longest)
    assert name[:-12] == expected
    assert len(name) <= longest


NAMED: dict[str, Any] = {"Capabilities": ["CAPABILITY_NAMED_IAM"]}


def test_a_resource_with_a_custom_name_is_not_replaced(stacks: Any, client: Make) -> None:
    role = {"RoleName": "custom", "AssumeRolePolicyDocument": trust("batch.amazonaws.com")}
    stacks.create_stack(
        StackName="custom", TemplateBody=body({"R": {"Type": "AWS::IAM::Role", "Properties": role}}), **NAMED
    )
    elsewhere = {"Type": "AWS::IAM::Role", "Properties": {**role, "Path": "/other/"}}
    stacks.update_stack(StackName="custom", TemplateBody=body({"R": elsewhere}), **NAMED)
    assert stack(stacks, "custom")["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource requires replacing. Rename custom and update the stack again" in reason(
        stacks, "custom"
    )
    assert client("iam").get_role(RoleName="custom")["Role"]["Path"] == "/"


def test_a_renamed_resource_is_created_before_the_old_one_is_deleted(stacks: Any, client: Make) -> None:
    def named(name: str) -> dict[str, Any]:
        properties = {"RoleName": name, "AssumeRolePolicyDocument": trust("batch.amazonaws.com")}
        return {"Type": "AWS::IAM::Role", "Properties": properties}

    stacks.create_stack(StackName="renamed", TemplateBody=body({"R": named("first")}, Name={"Ref": "R"}), **NAMED)
    stacks.update_stack(StackName="renamed", TemplateBody=body({"R": named("second")}, Name={"Ref": "R"}), **NAMED)
    assert outputs(stacks, "renamed") == {"Name": "second"}
    events = [
        (event["PhysicalResourceId"], event["ResourceStatus"])
        for event in reversed(stacks.describe_stack_events(StackName="renamed")["StackEvents"])
        if event["LogicalResourceId"] == "R"
    ]
    assert events.index(("second", "UPDATE_COMPLETE")) < events.index(("first", "DELETE_COMPLETE"))
    assert "first" not in {role["RoleName"] for role in client("iam").list_roles()["Roles"]}


def test_a_failed_update_restores_replaced_resources(stacks: Any, client: Make) -> None:
    def named(name: str) -> dict[str, Any]:
        return {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}

    stacks.create_stack(StackName="kept", TemplateBody=body({"Q": named("kept-first")}, Url={"Ref": "Q"}))
    before = outputs(stacks, "kept")["Url"]
    client("sqs").send_message(QueueUrl=before, MessageBody="still here")
    failing = {"Q": named("kept-second"), "X": {**UNKNOWN, "DependsOn": "Q"}}
    stacks.update_stack(StackName="kept", TemplateBody=body(failing, Url={"Ref": "Q"}))
    assert stack(stacks, "kept")["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert outputs(stacks, "kept")["Url"] == before
    assert client("sqs").list_queues(QueueNamePrefix="kept-")["QueueUrls"] == [before]
    assert client("sqs").receive_message(QueueUrl=before)["Messages"][0]["Body"] == "still here"


def network(**cidrs: str) -> dict[str, Any]:
    subnets = {
        name: {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "V"}, "CidrBlock": cidr}}
        for name, cidr in cidrs.items()
    }
    return {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}, **subnets}


def test_a_subnet_cannot_move_to_another_subnets_range(stacks: Any, client: Make) -> None:
    ids = {"A": {"Ref": "A"}, "B": {"Ref": "B"}}
    before = body(network(A="10.0.0.0/20", B="10.0.16.0/20"), **ids)
    stacks.create_stack(StackName="subnets", TemplateBody=before)
    subnets = outputs(stacks, "subnets")
    moved = network(G="10.0.0.0/28", A="10.0.16.0/20", B="10.0.32.0/20")
    stacks.update_stack(StackName="subnets", TemplateBody=body(moved, **ids))
    assert stack(stacks, "subnets")["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "conflicts with another subnet" in reason(stacks, "subnets")
    assert outputs(stacks, "subnets") == subnets
    there = client("ec2").describe_subnets(SubnetIds=list(subnets.values()))["Subnets"]
    assert sorted(subnet["CidrBlock"] for subnet in there) == ["10.0.0.0/20", "10.0.16.0/20"]


def test_route_targets_and_tags_change_in_place(stacks: Any, client: Make) -> None:
    def routed(target: dict[str, Any], tag: str) -> str:
        way = {"RouteTableId": {"Ref": "T"}, "DestinationCidrBlock": "0.0.0.0/0", **target}
        resources = network(A="10.0.0.0/20") | {
            "T": {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": {"Ref": "V"}}},
            "I": {"Type": "AWS::EC2::InternetGateway", "Properties": {}},
            "E": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
            "At": {
                "Type": "AWS::EC2::VPCGatewayAttachment",
                "Properties": {"VpcId": {"Ref": "V"}, "InternetGatewayId": {"Ref": "I"}},
            },
            "N": {
                "Type": "AWS::EC2::NatGateway",
                "Properties": {"SubnetId": {"Ref": "A"}, "AllocationId": {"Fn::GetAtt": ["E", "AllocationId"]}},
            },
            "R": {"Type": "AWS::EC2::Route", "Properties": way, "DependsOn": "At"},
        }
        resources["A"]["Properties"]["Tags"] = [{"Key": "kind", "Value": tag}]
        return body(resources, Subnet={"Ref": "A"}, Table={"Ref": "T"})

    stacks.create_stack(StackName="routed", TemplateBody=routed({"GatewayId": {"Ref": "I"}}, "public"))
    before = outputs(stacks, "routed")
    stacks.update_stack(StackName="routed", TemplateBody=routed({"NatGatewayId": {"Ref": "N"}}, "private"))
    assert outputs(stacks, "routed") == before, stack(stacks, "routed")
    ec2 = client("ec2")
    (subnet,) = ec2.describe_subnets(SubnetIds=[before["Subnet"]])["Subnets"]
    assert subnet["Tags"] == [{"Key": "kind", "Value": "private"}]
    (table,) = ec2.describe_route_tables(RouteTableIds=[before["Table"]])["RouteTables"]
    (out,) = [route for route in table["Routes"] if route["DestinationCidrBlock"] == "0.0.0.0/0"]
    assert out["NatGatewayId"].startswith("nat-")


def test_a_new_subscriber_of_a_named_budget_is_refused(stacks: Any) -> None:
    def template(*emails: str) -> str:
        entry = {
            "Notification": {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80},
            "Subscribers": [{"SubscriptionType": "EMAIL", "Address": email} for email in emails],
        }
        budget = {"BudgetName": "g", "BudgetType": "COST", "TimeUnit": "MONTHLY"}
        limit = {"BudgetLimit": {"Amount": 5, "Unit": "USD"}}
        properties = {"Budget": {**budget, **limit}, "NotificationsWithSubscribers": [entry]}
        return body({"B": {"Type": "AWS::Budgets::Budget", "Properties": properties}})

    stacks.create_stack(StackName="budget", TemplateBody=template("a@example.com"))
    stacks.update_stack(StackName="budget", TemplateBody=template("a@example.com", "b@example.com"))
    assert "Rename g and update the stack again" in reason(stacks, "budget")
