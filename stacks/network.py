"""Network: the VPC of the Batch children, with outbound HTTPS and no inbound connections."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stacks.endpoints import CHILDREN, private_endpoints, reach_storage
from stacks.flow_log import record_flows
from stacks.grants import acknowledge
from stacks.log_keeping import LogKeeping
from traingrid.grid.model import GridSettings


def zones(grid: GridSettings) -> list[str]:
    """Return the zones of the subnets: the zones in grid.yaml, or the first two of the Region."""
    return list(grid.network.zones) or [Fn.select(number, Fn.get_azs()) for number in range(2)]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The network settings that children run with."""

    vpc: ec2.IVpc
    subnets: ec2.SubnetSelection
    security_groups: Sequence[ec2.ISecurityGroup]
    public_addresses: bool


class Network(Construct):
    """The network that `network` of grid.yaml describes. Children run in its `placement`.

    A child calls SageMaker in every training Region, but an interface endpoint only reaches its own Region. So children
    need internet access, unless all training is at home: either a public address for each child, at $0.005 per hour
    (https://aws.amazon.com/vpc/pricing/), or a NAT gateway, at $0.045 per hour, used or not.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings, keeping: LogKeeping) -> None:
        super().__init__(scope, identifier)
        if grid.network.kind == "existing":
            self.placement = self._existing_placement(grid)
            return
        private = grid.network.kind == "private"
        vpc = self._private_vpc(grid) if private else self._public_vpc(grid)
        children = self._security_group(vpc)
        reach_storage(vpc, grid)
        if private:
            private_endpoints(self, vpc, children, grid)
        record_flows(self, vpc, keeping)
        self.placement = Placement(
            vpc=vpc,
            subnets=ec2.SubnetSelection(subnet_group_name=CHILDREN),
            security_groups=[children],
            public_addresses=not private,
        )

    def _public_vpc(self, grid: GridSettings) -> ec2.Vpc:
        """Return a VPC with public subnets in two availability zones. It is free of charge while no child runs."""
        # Fargate requests public addresses itself; no other resource in these subnets gets one.
        public = ec2.SubnetConfiguration(
            name=CHILDREN, subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=20, map_public_ip_on_launch=False
        )
        return self._vpc(grid, [public], nat_gateways=0)

    def _private_vpc(self, grid: GridSettings) -> ec2.Vpc:
        """Return a VPC whose children have no public addresses: isolated if all training is at home, else behind NAT.

        In both cases, endpoints provide the AWS APIs of the home Region. The children's subnets are listed first, so
        that they have the same addresses in every kind of network. Otherwise a change of the kind would fail:
        CloudFormation creates a new subnet before it deletes the old one with the same addresses, and EC2 refuses that
        (https://github.com/aws/aws-cdk/issues/28369).
        """
        if set(grid.regions) == {grid.home}:
            isolated = ec2.SubnetConfiguration(name=CHILDREN, subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20)
            return self._vpc(grid, [isolated], nat_gateways=0)
        gateway = ec2.SubnetConfiguration(
            name="Gateway", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28, map_public_ip_on_launch=False
        )
        private = ec2.SubnetConfiguration(name=CHILDREN, subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=20)
        return self._vpc(grid, [private, gateway], nat_gateways=1)

    def _vpc(self, grid: GridSettings, subnets: Sequence[ec2.SubnetConfiguration], *, nat_gateways: int) -> ec2.Vpc:
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=nat_gateways,
            subnet_configuration=list(subnets),
            restrict_default_security_group=False,
        )
        acknowledge(
            vpc,
            "NIST.800.53.R5-VPCDefaultSecurityGroupClosed",
            "Emptying the default security group requires a custom resource. The group is never used, and it only "
            "admits its own members",
        )
        if grid.network.zones:
            _acknowledge_zones(vpc)
        if any(subnet.subnet_type == ec2.SubnetType.PUBLIC for subnet in subnets):
            acknowledge(
                vpc,
                "NIST.800.53.R5-VPCNoUnrestrictedRouteToIGW",
                "Children call SageMaker in every training Region; the security group only allows outbound HTTPS",
            )
        return vpc

    def _existing_placement(self, grid: GridSettings) -> Placement:
        """Return the placement in an existing VPC, with the subnets of grid.yaml. Nothing is looked up in AWS."""
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id=grid.network.vpc or "", availability_zones=Fn.get_azs())
        zones = "Annotation::@aws-cdk/aws-ec2:vpcAttributeIsListTokenavailabilityZones"
        acknowledge(vpc, zones, "Zones are not used for placement: grid.yaml lists the subnets")
        subnets = [
            ec2.Subnet.from_subnet_id(self, f"Subnet{number}", subnet)
            for number, subnet in enumerate(grid.network.subnets, 1)
        ]
        for subnet in subnets:
            route = "Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId"
            acknowledge(subnet, route, "The routes of an existing network belong to its owner: none is added")
        yours = [
            ec2.SecurityGroup.from_security_group_id(self, f"SecurityGroup{number}", group, mutable=False)
            for number, group in enumerate(grid.network.security_groups, 1)
        ]
        return Placement(
            vpc=vpc,
            subnets=ec2.SubnetSelection(subnets=subnets),
            security_groups=yours or [self._security_group(vpc)],
            public_addresses=grid.network.public_addresses,
        )

    def _security_group(self, vpc: ec2.IVpc) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self,
            "ChildrenSecurityGroup",
            vpc=vpc,
            description="Batch children: HTTPS to AWS, nothing in",
            allow_all_outbound=False,
        )
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "HTTPS to the AWS APIs")
        return group


def _acknowledge_zones(vpc: ec2.Vpc) -> None:
    """Acknowledge, for the CDK's validation and for cfn-lint, that grid.yaml names the zones of the subnets.

    cfn-lint reads it from the resource's metadata (https://github.com/aws-cloudformation/cfn-lint#metadata).
    """
    acknowledge(vpc, "CloudFormation-Validate::W3010", "grid.yaml names the zones")
    for subnet in (*vpc.public_subnets, *vpc.private_subnets, *vpc.isolated_subnets):
        resource = cast(ec2.CfnSubnet, subnet.node.default_child)
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3010"]}})
