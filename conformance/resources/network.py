"""Network interfaces in the default VPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.aws import Aws


def interface(aws: Aws) -> tuple[str, str]:
    """Return the ids of a subnet and of a network interface in it, which claims share and do not change."""
    return aws.once("network interface", lambda: _interface(aws))


def _interface(aws: Aws) -> tuple[str, str]:
    ec2 = aws.client("ec2")
    subnet = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"][0]["SubnetId"]
    tags = [{"ResourceType": "network-interface", "Tags": aws.tags()}]
    made = ec2.create_network_interface(SubnetId=subnet, TagSpecifications=tags)["NetworkInterface"]
    name = str(made["NetworkInterfaceId"])
    aws.undo.later(f"network interface {name}", lambda: ec2.delete_network_interface(NetworkInterfaceId=name))
    return str(subnet), name
