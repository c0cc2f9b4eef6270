"""The children's network: access to AWS in every Region, no inbound connections, and no unrequested costs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stacks.templates import Template, a_grid, flat, only, resources, synthesise

EXISTING = {"kind": "existing", "vpc": "vpc-0a1b2c3d", "subnets": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"]}

Control = Callable[..., Template]


@pytest.fixture(scope="module")
def control_of(layer: Path) -> Control:
    """Return a function that synthesizes the control stack of a grid with a number of Regions and a network."""

    def of(regions: int, network: str | dict[str, Any]) -> Template:
        grid = a_grid(regions, network=network)
        return synthesise(grid, layer)["traingrid-control"]

    return of


@pytest.fixture(scope="module")
def private(control_of: Control) -> Template:
    return control_of(2, "private")


@pytest.fixture(scope="module")
def isolated(control_of: Control) -> Template:
    return control_of(1, "private")


@pytest.fixture(scope="module")
def existing(control_of: Control) -> Template:
    return control_of(2, EXISTING)


@pytest.fixture(scope="module")
def with_reconciler(control_of: Control) -> Template:
    return control_of(2, EXISTING | {"reconciler": True})


def public_address(control: Template) -> str:
    container = only(control, "AWS::Batch::JobDefinition")["ContainerProperties"]
    return str(container["NetworkConfiguration"]["AssignPublicIp"])


def test_private_children_use_a_nat_gateway_for_other_regions(private: Template) -> None:
    assert public_address(private) == "DISABLED"
    children = [name for name in resources(private, "AWS::EC2::Subnet") if "Children" in name]
    compute = only(private, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    assert sorted(flat(subnet) for subnet in compute["Subnets"]) == sorted(f"<{name}>" for name in children)
    ways_out = [
        route["Properties"] for name, route in resources(private, "AWS::EC2::Route").items() if "Children" in name
    ]
    assert len(resources(private, "AWS::EC2::NatGateway")) == 1
    assert len(ways_out) == len(children)
    assert all("NatGatewayId" in way for way in ways_out)


def test_training_only_at_home_needs_no_internet_access(isolated: Template) -> None:
    assert public_address(isolated) == "DISABLED"
    for kind in ("AWS::EC2::NatGateway", "AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::EIP"):
        assert not resources(isolated, kind)
    services = {
        flat(endpoint["Properties"]["ServiceName"]).rpartition("us-east-1.")[2]
        for endpoint in resources(isolated, "AWS::EC2::VPCEndpoint").values()
        if endpoint["Properties"]["VpcEndpointType"] == "Interface"
    }
    assert services == {"ecr.api", "ecr.dkr", "logs", "sagemaker.api"}


def test_subnets_have_the_same_addresses_in_every_kind_of_network(
    control: Template, private: Template, isolated: Template, control_of: Control
) -> None:
    """CloudFormation creates a subnet before it deletes another one, so a subnet cannot take over addresses."""
    cidrs: dict[str, set[str]] = {}
    for template in (control, private, isolated, control_of(1, "public")):
        for name, subnet in resources(template, "AWS::EC2::Subnet").items():
            cidrs.setdefault(name, set()).add(subnet["Properties"]["CidrBlock"])
    assert sorted(map(sorted, cidrs.values())) == [
        ["10.0.0.0/20"],
        ["10.0.16.0/20"],
        ["10.0.32.0/28"],
        ["10.0.32.16/28"],
    ]


def test_subnets_are_in_the_zones_of_grid_yaml(control_of: Control) -> None:
    zones = ["us-east-1c", "us-east-1d"]
    control = control_of(1, {"kind": "private", "zones": zones})
    subnets = resources(control, "AWS::EC2::Subnet").values()
    assert [subnet["Properties"]["AvailabilityZone"] for subnet in subnets] == zones


def test_endpoints_only_accept_children_and_children_accept_nothing(private: Template) -> None:
    (ingress,) = resources(private, "AWS::EC2::SecurityGroupIngress").values()
    rule = ingress["Properties"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)
    assert "EndpointsSecurityGroup" in flat(rule["GroupId"])
    assert "ChildrenSecurityGroup" in flat(rule["SourceSecurityGroupId"])
    for group in resources(private, "AWS::EC2::SecurityGroup").values():
        assert "SecurityGroupIngress" not in group["Properties"]


@pytest.mark.parametrize("network", ["control", "private", "isolated"])
def test_every_endpoint_serves_this_account_and_ecrs_own_layers(network: str, request: pytest.FixtureRequest) -> None:
    template = request.getfixturevalue(network)
    endpoints = resources(template, "AWS::EC2::VPCEndpoint")
    assert endpoints
    for endpoint in endpoints.values():
        for statement in endpoint["Properties"]["PolicyDocument"]["Statement"]:
            of_this_account = statement.get("Condition") == {
                "StringEquals": {"aws:PrincipalAccount": {"Ref": "AWS::AccountId"}}
            }
            layers = (statement["Action"], statement["Resource"]) == (
                "s3:GetObject",
                "arn:aws:s3:::prod-us-east-1-starport-layer-bucket/*",
            )
            assert of_this_account or layers


def test_an_existing_network_is_used_as_specified(existing: Template) -> None:
    kinds = {resource["Type"] for resource in existing["Resources"].values() if "::EC2::" in resource["Type"]}
    assert kinds == {"AWS::EC2::SecurityGroup"}
    group = only(existing, "AWS::EC2::SecurityGroup")
    assert group["VpcId"] == EXISTING["vpc"]
    assert [(rule["FromPort"], rule["ToPort"]) for rule in group["SecurityGroupEgress"]] == [(443, 443)]
    assert only(existing, "AWS::Batch::ComputeEnvironment")["ComputeResources"]["Subnets"] == EXISTING["subnets"]
    assert public_address(existing) == "DISABLED"


def test_security_groups_and_addresses_of_an_existing_network_are_used(control_of: Control) -> None:
    control = control_of(2, {**EXISTING, "security_groups": ["sg-0a1b2c3d"], "public_addresses": True})
    assert not resources(control, "AWS::EC2::SecurityGroup")
    compute = only(control, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    assert compute["SecurityGroupIds"] == ["sg-0a1b2c3d"]
    assert public_address(control) == "ENABLED"


def in_vpcs(control: Template) -> dict[str, Any]:
    """Return the networks of the functions that are in a VPC, by the function's description."""
    functions = [function["Properties"] for function in resources(control, "AWS::Lambda::Function").values()]
    return {one["Description"]: one["VpcConfig"] for one in functions if "VpcConfig" in one}


def test_only_the_reconciler_runs_in_an_existing_network_and_only_if_asked(
    existing: Template, with_reconciler: Template
) -> None:
    assert in_vpcs(existing) == {}
    (found,) = in_vpcs(with_reconciler).items()
    compute = only(with_reconciler, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    assert found[0] == "Closes jobs that have no active child, and stops unwanted training jobs"
    assert found[1] == {"SubnetIds": EXISTING["subnets"], "SecurityGroupIds": compute["SecurityGroupIds"]}


def test_code_of_the_reconciler_cannot_use_the_permissions_that_connect_it(with_reconciler: Template) -> None:
    policies = resources(with_reconciler, "AWS::IAM::Policy").items()
    (policy,) = (policy["Properties"] for name, policy in policies if name.startswith("ReconcilerSweepRole"))
    statements = policy["PolicyDocument"]["Statement"]
    about = [one for one in statements if "ec2:CreateNetworkInterface" in one["Action"]]
    assert [(one["Effect"], one["Resource"]) for one in about] == [("Allow", "*"), ("Deny", "*")]
    assert set(about[1]["Action"]) == {action for action in about[0]["Action"] if action.startswith("ec2:")}
    assert about[1]["Condition"] == {"Null": {"lambda:SourceFunctionArn": "false"}}
