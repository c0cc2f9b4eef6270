"""File systems: reads the network of EFS and FSx for Lustre file systems, and of a Region's training jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.aws.clients import client

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traingrid.aws.clients import ActingRole

_MISSING = "FileSystemNotFound"
"""The error code of EFS and of FSx for an id that does not exist in the Region and account
(https://docs.aws.amazon.com/efs/latest/ug/API_DescribeMountTargets.html,
https://docs.aws.amazon.com/fsx/latest/APIReference/API_DescribeFileSystems.html)."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface of a file system: an EFS mount target, or a server of FSx for Lustre."""

    vpc: str
    zone: str
    address: str
    groups: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MountableFileSystem:
    """A file system of a Region.

    Attributes:
        name: Its id.
        interfaces: The interfaces through which it is mounted; empty if it cannot be mounted at present.
        mount_name: The beginning of every path of FSx for Lustre, without slashes; empty for EFS.
    """

    name: str
    interfaces: tuple[Interface, ...]
    mount_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Subnet:
    """A subnet in which training jobs run; `free_addresses` is the number of its unused IPv4 addresses."""

    name: str
    vpc: str
    zone: str
    cidr: str
    free_addresses: int


@dataclass(frozen=True, kw_only=True)
class GroupRule:
    """A rule of a security group, with the members of EC2's SecurityGroupRule.

    Attributes:
        group: The group that has the rule.
        outbound: True for outbound traffic.
        protocol: "tcp", a protocol number, or "-1" for all protocols.
        first: First port; -1 for all.
        last: Last port.
        peer_group: The group at the other end, or empty.
        cidr: The addresses at the other end, or empty.
        prefix_list: The prefix list at the other end, or empty.
    """

    group: str
    outbound: bool
    protocol: str
    first: int
    last: int
    peer_group: str = ""
    cidr: str = ""
    prefix_list: str = ""


def mountable(file_system: str, kind: str, region: str, role: ActingRole | None = None) -> MountableFileSystem | None:
    """Return a file system; None if the Region has none with this id and type.

    Args:
        kind: EFS or FSxLustre.
        role: The role to assume in another account.

    Raises:
        ClientError: AWS refuses a request.
        BotoCoreError: AWS does not answer.
    """
    try:
        read_interfaces = _mount_targets_of_efs if kind == "EFS" else _interfaces_of_lustre
        names, mount_name = read_interfaces(file_system, region, role)
    except ClientError as error:
        if error.response["Error"]["Code"] != _MISSING:
            raise
        return None
    if names is None:
        return None
    interfaces = tuple(_interfaces(names, region, role)) if names else ()
    return MountableFileSystem(name=file_system, interfaces=interfaces, mount_name=mount_name)


def subnets(names: Sequence[str], region: str, role: ActingRole | None = None) -> list[Subnet]:
    """Return the subnets of training jobs.

    Raises:
        ClientError: A subnet does not exist, or EC2 refuses the request.
        BotoCoreError: AWS does not answer.
    """
    descriptions = client("ec2", region, role).describe_subnets(SubnetIds=list(names))["Subnets"]
    return [
        Subnet(
            name=description["SubnetId"],
            vpc=description["VpcId"],
            zone=description["AvailabilityZone"],
            cidr=description["CidrBlock"],
            free_addresses=description["AvailableIpAddressCount"],
        )
        for description in descriptions
    ]


def group_rules(groups: Iterable[str], region: str, role: ActingRole | None = None) -> list[GroupRule]:
    """Return the rules of security groups.

    Raises:
        ClientError: EC2 refuses the request.
        BotoCoreError: AWS does not answer.
    """
    pages = client("ec2", region, role).get_paginator("describe_security_group_rules")
    filters = [{"Name": "group-id", "Values": sorted(set(groups))}]
    return [_rule(rule) for page in pages.paginate(Filters=filters) for rule in page["SecurityGroupRules"]]


def mount_problem(file_system: MountableFileSystem, jobs: Sequence[Subnet]) -> str:
    """Return why training jobs cannot mount a file system that exists, as a clause; empty if they can.

    A training job mounts a file system through its network interfaces, so that both must be in one VPC
    (https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html).
    """
    if not file_system.interfaces:
        return f"{file_system.name} has no network interface that is available, such as a mount target of EFS"
    vpcs_of_file_system = {interface.vpc for interface in file_system.interfaces}
    vpcs_of_jobs = {subnet.vpc for subnet in jobs}
    if vpcs_of_file_system != vpcs_of_jobs:
        jobs_place = f"the training jobs of its Region run in {_joined(vpcs_of_jobs)}"
        return f"{file_system.name} is in {_joined(vpcs_of_file_system)}, but {jobs_place}"
    return ""


def _joined(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


def _mount_targets_of_efs(file_system: str, region: str, role: ActingRole | None) -> tuple[list[str], str]:
    pages = client("efs", region, role).get_paginator("describe_mount_targets").paginate(FileSystemId=file_system)
    targets = [target for page in pages for target in page["MountTargets"]]
    return [target["NetworkInterfaceId"] for target in targets if target["LifeCycleState"] == "available"], ""


def _interfaces_of_lustre(file_system: str, region: str, role: ActingRole | None) -> tuple[list[str] | None, str]:
    file_systems = client("fsx", region, role).describe_file_systems(FileSystemIds=[file_system])["FileSystems"]
    file_system_description = next(
        (candidate for candidate in file_systems if candidate["FileSystemType"] == "LUSTRE"), None
    )
    if file_system_description is None:
        return None, ""
    usable = file_system_description.get("Lifecycle") in ("AVAILABLE", "UPDATING")
    mount_name = (file_system_description.get("LustreConfiguration") or {}).get("MountName", "")
    interfaces = file_system_description.get("NetworkInterfaceIds", []) if usable else []
    return interfaces, mount_name


def _interfaces(names: Sequence[str], region: str, role: ActingRole | None) -> Iterator[Interface]:
    reply = client("ec2", region, role).describe_network_interfaces(NetworkInterfaceIds=list(names))
    for interface in reply["NetworkInterfaces"]:
        yield Interface(
            vpc=interface["VpcId"],
            zone=interface["AvailabilityZone"],
            address=interface["PrivateIpAddress"],
            groups=tuple(group["GroupId"] for group in interface["Groups"]),
        )


def _rule(rule: Mapping[str, Any]) -> GroupRule:
    return GroupRule(
        group=rule["GroupId"],
        outbound=rule["IsEgress"],
        protocol=rule["IpProtocol"],
        first=rule.get("FromPort", -1),
        last=rule.get("ToPort", -1),
        peer_group=(rule.get("ReferencedGroupInfo") or {}).get("GroupId", ""),
        cidr=rule.get("CidrIpv4") or rule.get("CidrIpv6") or "",
        prefix_list=rule.get("PrefixListId") or "",
    )
