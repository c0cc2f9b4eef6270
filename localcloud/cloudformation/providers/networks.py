"""VPCs and their parts: moto's models create them, the API deletes them."""

import json
from collections.abc import Callable
from typing import Any

from localcloud.cloudformation.context import Context, Provisioned, tag_map
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned
from localcloud.cloudformation.providers.native import NativeProvider, unchanged_resource

Delete = Callable[[Any, Provisioned], Any]


class NetworkProvider(NativeProvider):
    """A part of a VPC. The delete method of most models in moto 5.2.5 has no effect, so the API deletes it."""

    def __init__(self, delete: Delete) -> None:
        self._delete = delete

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the resource through its service's API."""
        self._delete(context.client("ec2"), resource)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update tags, a route's target, or an endpoint's policy, subnets, route tables and security groups."""
        kind, ec2 = old.cf_resource_type, context.client("ec2")
        different = {
            name for name in {*old.properties, *properties} if old.properties.get(name) != properties.get(name)
        }
        if "Tags" in different:
            _tag(ec2, old, properties)
        different.discard("Tags")
        if different and kind not in _UPDATES:
            return super().update(context, old, properties)
        if different:
            _UPDATES[kind](ec2, old, properties)
        return unchanged_resource(context, old)


def _tag(ec2: Any, old: Provisioned, properties: Properties) -> None:
    before = tag_map(old.properties)
    after = tag_map(properties)
    resources = [old.physical_resource_id]
    if removed := [{"Key": key} for key in before if key not in after]:
        ec2.delete_tags(Resources=resources, Tags=removed)
    if after:
        ec2.create_tags(Resources=resources, Tags=[{"Key": key, "Value": value} for key, value in after.items()])


def _replace_route(ec2: Any, old: Provisioned, properties: Properties) -> None:  # noqa: ARG001 - as all updates
    ec2.replace_route(**properties)


def _modify_endpoint(ec2: Any, old: Provisioned, properties: Properties) -> None:
    request: dict[str, Any] = {"VpcEndpointId": old.physical_resource_id}
    if "PolicyDocument" in properties:
        request["PolicyDocument"] = json.dumps(properties["PolicyDocument"])
    for plural, name in (
        ("RouteTableIds", "RouteTable"),
        ("SubnetIds", "Subnet"),
        ("SecurityGroupIds", "SecurityGroup"),
    ):
        before = set(old.properties.get(plural, ()))
        after = set(properties.get(plural, ()))
        for verb, ids in (("Add", after - before), ("Remove", before - after)):
            if ids:
                request[f"{verb}{name}Ids"] = sorted(ids)
    ec2.modify_vpc_endpoint(**request)


_UPDATES = {"AWS::EC2::Route": _replace_route, "AWS::EC2::VPCEndpoint": _modify_endpoint}


def _delete_route(ec2: Any, resource: Provisioned) -> None:
    target = resource.properties["DestinationCidrBlock"]
    ec2.delete_route(RouteTableId=resource.properties["RouteTableId"], DestinationCidrBlock=target)


def _detach_gateway(ec2: Any, resource: Provisioned) -> None:
    gateway = resource.properties.get("InternetGatewayId")
    if gateway:
        ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=resource.properties["VpcId"])


def _disassociate(ec2: Any, resource: Provisioned) -> None:
    """Disassociate by route table and subnet, because moto's model has no association id that its API knows."""
    tables = ec2.describe_route_tables(RouteTableIds=[resource.properties["RouteTableId"]])["RouteTables"]
    for association in tables[0]["Associations"]:
        if association.get("SubnetId") == resource.properties["SubnetId"]:
            ec2.disassociate_route_table(AssociationId=association["RouteTableAssociationId"])


def _release(ec2: Any, resource: Provisioned) -> None:
    """Release by allocation id, because the resource's id is the public address."""
    for address in ec2.describe_addresses(PublicIps=[resource.physical_resource_id])["Addresses"]:
        ec2.release_address(AllocationId=address["AllocationId"])


class IngressProvider(Provider):
    """AWS::EC2::SecurityGroupIngress from another group; moto 5.2.5's model of it has no id."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Add the rule; the rule's id is the resource's id."""
        reply = context.client("ec2").authorize_security_group_ingress(
            GroupId=properties["GroupId"], IpPermissions=[_permission(properties)]
        )
        rule = reply["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return provisioned(context, kind, rule, Id=rule)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Remove the rule."""
        context.client("ec2").revoke_security_group_ingress(
            GroupId=resource.properties["GroupId"], IpPermissions=[_permission(resource.properties)]
        )


def _permission(rule: Properties) -> dict[str, Any]:
    return {
        "IpProtocol": rule["IpProtocol"],
        "FromPort": int(rule["FromPort"]),
        "ToPort": int(rule["ToPort"]),
        "UserIdGroupPairs": [{"GroupId": rule["SourceSecurityGroupId"], "Description": rule.get("Description", "")}],
    }


PROVIDERS: dict[str, Provider] = {
    "AWS::EC2::VPC": NetworkProvider(lambda ec2, it: ec2.delete_vpc(VpcId=it.physical_resource_id)),
    "AWS::EC2::Subnet": NetworkProvider(lambda ec2, it: ec2.delete_subnet(SubnetId=it.physical_resource_id)),
    "AWS::EC2::RouteTable": NetworkProvider(
        lambda ec2, it: ec2.delete_route_table(RouteTableId=it.physical_resource_id)
    ),
    "AWS::EC2::Route": NetworkProvider(_delete_route),
    "AWS::EC2::SubnetRouteTableAssociation": NetworkProvider(_disassociate),
    "AWS::EC2::InternetGateway": NetworkProvider(
        lambda ec2, it: ec2.delete_internet_gateway(InternetGatewayId=it.physical_resource_id)
    ),
    "AWS::EC2::VPCGatewayAttachment": NetworkProvider(_detach_gateway),
    "AWS::EC2::SecurityGroup": NetworkProvider(
        lambda ec2, it: ec2.delete_security_group(GroupId=it.physical_resource_id)
    ),
    "AWS::EC2::VPCEndpoint": NetworkProvider(
        lambda ec2, it: ec2.delete_vpc_endpoints(VpcEndpointIds=[it.physical_resource_id])
    ),
    "AWS::EC2::NatGateway": NetworkProvider(
        lambda ec2, it: ec2.delete_nat_gateway(NatGatewayId=it.physical_resource_id)
    ),
    "AWS::EC2::EIP": NetworkProvider(_release),
    "AWS::EC2::SecurityGroupIngress": IngressProvider(),
    "AWS::EC2::FlowLog": NetworkProvider(lambda ec2, it: ec2.delete_flow_logs(FlowLogIds=[it.physical_resource_id])),
}
