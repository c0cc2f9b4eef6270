"""Keys, private subnets and rules between security groups, as CloudFormation creates and deletes them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "kms:*"}]}
KEY: dict[str, Any] = {
    "Type": "AWS::KMS::Key",
    "Properties": {
        "KeyPolicy": POLICY,
        "EnableKeyRotation": True,
        "Tags": [{"Key": "traingrid:grid", "Value": "g"}],
    },
}
ALIAS = {"Type": "AWS::KMS::Alias", "Properties": {"AliasName": "alias/g", "TargetKeyId": {"Fn::GetAtt": ["K", "Arn"]}}}


def template(resources: dict[str, Any], **outputs: Any) -> str:
    return json.dumps({"Resources": resources, "Outputs": {name: {"Value": value} for name, value in outputs.items()}})


def outputs(stacks: Any, name: str) -> dict[str, str]:
    (found,) = stacks.describe_stacks(StackName=name)["Stacks"]
    assert found["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), found
    return {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}


@pytest.fixture
def stacks(client: Callable[..., Any]) -> Any:
    return client("cloudformation")


def test_a_key_has_rotation_and_an_alias_and_its_deletion_is_scheduled(stacks: Any, client: Callable[..., Any]) -> None:
    kms = client("kms")
    stacks.create_stack(StackName="key", TemplateBody=template({"K": KEY, "A": ALIAS}, Id={"Ref": "K"}))
    key = outputs(stacks, "key")["Id"]
    assert kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"] is True
    assert kms.describe_key(KeyId="alias/g")["KeyMetadata"]["KeyId"] == key
    assert kms.list_resource_tags(KeyId=key)["Tags"] == [{"TagKey": "traingrid:grid", "TagValue": "g"}]

    still = {**KEY, "Properties": {**KEY["Properties"], "EnableKeyRotation": False}}
    stacks.update_stack(StackName="key", TemplateBody=template({"K": still, "A": ALIAS}, Id={"Ref": "K"}))
    assert outputs(stacks, "key")["Id"] == key
    assert kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"] is False

    stacks.delete_stack(StackName="key")
    assert kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    assert not [alias for alias in kms.list_aliases()["Aliases"] if alias["AliasName"] == "alias/g"]


def test_group_rules_and_nat_gateways_are_created_and_deleted(stacks: Any, client: Callable[..., Any]) -> None:
    ec2 = client("ec2")
    group = {"GroupDescription": "g", "VpcId": {"Ref": "V"}}
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
    resources = {
        "V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "S": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "V"}, "CidrBlock": "10.0.0.0/24"}},
        "E": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
        "N": {
            "Type": "AWS::EC2::NatGateway",
            "Properties": {"AllocationId": {"Fn::GetAtt": ["E", "AllocationId"]}, "SubnetId": {"Ref": "S"}},
        },
        "From": {"Type": "AWS::EC2::SecurityGroup", "Properties": group},
        "To": {"Type": "AWS::EC2::SecurityGroup", "Properties": group},
        "R": {
            "Type": "AWS::EC2::SecurityGroupIngress",
            "Properties": {
                **rule,
                "GroupId": {"Fn::GetAtt": ["To", "GroupId"]},
                "SourceSecurityGroupId": {"Fn::GetAtt": ["From", "GroupId"]},
            },
        },
    }
    to = {"Fn::GetAtt": ["To", "GroupId"]}
    sender = {"Fn::GetAtt": ["From", "GroupId"]}
    stacks.create_stack(StackName="network", TemplateBody=template(resources, To=to, From=sender))
    made = outputs(stacks, "network")
    (permission,) = ec2.describe_security_groups(GroupIds=[made["To"]])["SecurityGroups"][0]["IpPermissions"]
    assert (permission["FromPort"], permission["UserIdGroupPairs"][0]["GroupId"]) == (443, made["From"])
    (gateway,) = ec2.describe_nat_gateways()["NatGateways"]

    stacks.update_stack(
        StackName="network",
        TemplateBody=template({name: it for name, it in resources.items() if name != "R"}, To=to, From=sender),
    )
    assert not ec2.describe_security_groups(GroupIds=[made["To"]])["SecurityGroups"][0]["IpPermissions"]

    stacks.delete_stack(StackName="network")
    states = [
        found["State"] for found in ec2.describe_nat_gateways(NatGatewayIds=[gateway["NatGatewayId"]])["NatGateways"]
    ]
    assert states in ([], ["deleted"])
    assert not ec2.describe_addresses()["Addresses"]
