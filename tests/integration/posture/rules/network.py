"""Rules for networks: no inbound connections, and only HTTPS outbound."""

from collections.abc import Iterator
from typing import Any

from tests.integration.posture.rule import Rule, added, put
from tests.integration.posture.synthesised import Synthesised

GROUP, INGRESS = "AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"
NOWHERE = "255.255.255.255/32"
"""The CDK's rule for a security group without outbound traffic, because an empty list would allow everything."""


def nothing_comes_in_from_outside(made: Synthesised) -> Iterator[str]:
    """Members of one security group of the grid may connect to endpoints in another."""
    for where, group in made.properties(GROUP):
        for rule in group.get("SecurityGroupIngress", ()):
            if not _from_a_group_by_https(rule):
                yield f"{where} allows inbound {rule}"
    for where, rule in made.properties(INGRESS):
        if not _from_a_group_by_https(rule):
            yield f"{where} allows inbound {rule}"


def only_https_goes_out(made: Synthesised) -> Iterator[str]:
    for where, group in made.properties(GROUP):
        if not group.get("SecurityGroupEgress"):
            yield f"{where} allows all outbound traffic"
    rules = [(where, rule) for where, group in made.properties(GROUP) for rule in group.get("SecurityGroupEgress", ())]
    for where, rule in (*rules, *made.properties("AWS::EC2::SecurityGroupEgress")):
        if rule.get("CidrIp") != NOWHERE and not _https(rule):
            yield f"{where} allows outbound {rule}"


def no_subnet_gives_out_public_addresses(made: Synthesised) -> Iterator[str]:
    for where, subnet in made.properties("AWS::EC2::Subnet"):
        if subnet.get("MapPublicIpOnLaunch") is not False:
            yield f"{where} assigns public addresses"


def every_network_of_the_grid_records_its_flows(made: Synthesised) -> Iterator[str]:
    recorded = {flow["ResourceId"]["Ref"] for _, flow in made.properties("AWS::EC2::FlowLog")}
    for stack, name, _ in made.each("AWS::EC2::VPC"):
        if name not in recorded:
            yield f"{stack}/{name} has no flow log"


def _from_a_group_by_https(rule: dict[str, Any]) -> bool:
    return _https(rule) and "SourceSecurityGroupId" in rule


def _https(rule: dict[str, Any]) -> bool:
    return (rule["IpProtocol"], rule.get("FromPort"), rule.get("ToPort")) == ("tcp", 443, 443)


FROM_ANYWHERE = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}
RULES = (
    Rule(
        nothing_comes_in_from_outside,
        (put(GROUP, "SecurityGroupIngress", [FROM_ANYWHERE]), added(INGRESS, {"GroupId": "sg-1", **FROM_ANYWHERE})),
    ),
    Rule(
        only_https_goes_out,
        (
            put(GROUP, "SecurityGroupEgress", []),
            put(GROUP, "SecurityGroupEgress.0.ToPort", 65535),
            added("AWS::EC2::SecurityGroupEgress", {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}),
        ),
    ),
    Rule(no_subnet_gives_out_public_addresses, (put("AWS::EC2::Subnet", "MapPublicIpOnLaunch", True),)),
    Rule(every_network_of_the_grid_records_its_flows, (put("AWS::EC2::FlowLog", "ResourceId.Ref", "Other"),)),
)
