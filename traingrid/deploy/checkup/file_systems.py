"""File systems: checks that the training jobs of a Region can mount the file systems that grid.yaml lists for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network, ip_network
from typing import TYPE_CHECKING

from traingrid.aws import file_systems
from traingrid.aws.file_systems import mount_problem
from traingrid.deploy.checkup.finding import Finding, Verdict, run_check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traingrid.aws.clients import ActingRole
    from traingrid.aws.file_systems import GroupRule, MountableFileSystem, Subnet
    from traingrid.grid.region import Region

Ports = tuple[int, int]
PORTS: dict[str, tuple[Ports, ...]] = {"EFS": ((2049, 2049),), "FSxLustre": ((988, 988), (1018, 1023))}
"""The TCP ports that file systems use, first and last
(https://docs.aws.amazon.com/efs/latest/ug/network-access.html,
https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html)."""

_PERMISSIONS = (
    "elasticfilesystem:DescribeMountTargets, fsx:DescribeFileSystems, ec2:DescribeSubnets, "
    "ec2:DescribeNetworkInterfaces and ec2:DescribeSecurityGroupRules"
)


def mounts(settings: Region, region: str, role: ActingRole | None = None) -> Iterator[Finding]:
    """Check each file system of a Region: that it exists, is in the jobs' VPC and zones, and that its ports are open.

    Args:
        settings: The Region's section of grid.yaml.
    """
    for file_system, kind in settings.file_systems.items():
        if not settings.subnets:
            continue  # only pods mount it, through a volume of their cluster
        look = partial(_look, file_system, kind, settings, region, role)
        yield run_check(region, f"file system {file_system}", look, _PERMISSIONS)


def _look(file_system: str, kind: str, settings: Region, region: str, role: ActingRole | None) -> Finding:
    """Check that jobs can mount a file system: its type, network, zones and security groups."""
    good = Finding(region=region, subject=f"file system {file_system}", verdict=Verdict.GOOD, reason=kind)
    mountable = file_systems.mountable(file_system, kind, region, role)
    if mountable is None:
        reason = f"does not exist in {region} with the type {kind}"
        return _wrong_finding(good, reason, f"correct file_systems of {region} in grid.yaml")
    jobs = file_systems.subnets(settings.subnets, region, role)
    if reason := mount_problem(mountable, jobs):
        fix = f"create it, or a mount target, in the VPC of {region}, or correct subnets and security_groups there"
        return _wrong_finding(good, reason, fix)
    if kind == "EFS" and (subnet := _subnet_without_mount_target(mountable, jobs)):
        reason = f"it has no mount target in {subnet.zone}, the zone of {subnet.name}"
        fix = f"aws efs create-mount-target --region {region} --file-system-id {file_system} --subnet-id {subnet.name}"
        return _wrong_finding(good, reason, f"{fix} --security-groups {' '.join(mountable.interfaces[0].groups)}")
    if kind == "FSxLustre" and (zone := _zone_without_subnet(mountable, jobs)):
        reason = f"it is in {zone}, and no subnet of {region} is in this zone"
        return _wrong_finding(
            good, reason, f"add a subnet of {jobs[0].vpc} in {zone} to subnets of {region} in grid.yaml"
        )
    groups = {group for interface in mountable.interfaces for group in interface.groups}
    rules = file_systems.group_rules([*groups, *settings.security_groups], region, role)
    for end in _ends(mountable, settings.security_groups, jobs, kind):
        for ports in PORTS[kind]:
            if not end.admits(ports, rules):
                return _wrong_finding(good, end.sentence(ports), end.command(ports, region))
    return good


def _wrong_finding(good: Finding, reason: str, fix: str) -> Finding:
    return Finding(region=good.region, subject=good.subject, verdict=Verdict.WRONG, reason=reason, fix=fix)


def _subnet_without_mount_target(mountable: MountableFileSystem, jobs: Sequence[Subnet]) -> Subnet | None:
    """Return a subnet in whose zone an EFS file system has no mount target, or None.

    The name of the file system resolves to the mount target of the client's own zone
    (https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-mount-cmd-dns-name.html).
    """
    zones = {interface.zone for interface in mountable.interfaces}
    return next((subnet for subnet in jobs if subnet.zone not in zones), None)


def _zone_without_subnet(mountable: MountableFileSystem, jobs: Sequence[Subnet]) -> str:
    """Return the zone of an FSx for Lustre file system if no subnet is in it; empty otherwise.

    A file system has one zone, and a training job needs a subnet there
    (https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html).
    """
    zones = {interface.zone for interface in mountable.interfaces}
    return "" if zones & {subnet.zone for subnet in jobs} else " or ".join(sorted(zones))


@dataclass(frozen=True, kw_only=True)
class _End:
    """The security groups of one end of the connections, and the other end.

    Attributes:
        groups: The groups that must admit the traffic.
        outbound: True for outbound traffic.
    """

    groups: tuple[str, ...]
    outbound: bool
    peers: tuple[str, ...]
    networks: tuple[str, ...]

    def admits(self, ports: Ports, rules: Iterable[GroupRule]) -> bool:
        """Return True if the rules admit TCP to all of the ports; a rule with a prefix list counts as one that does."""
        fitting = [rule for rule in rules if self._fits(rule)]
        return all(
            any(rule.protocol == "-1" or rule.first <= port <= rule.last for rule in fitting)
            for port in range(ports[0], ports[1] + 1)
        )

    def _fits(self, rule: GroupRule) -> bool:
        if rule.group not in self.groups or rule.outbound is not self.outbound:
            return False
        if rule.protocol not in ("tcp", "6", "-1"):
            return False
        if rule.cidr:
            return all(_is_inside(network, rule.cidr) for network in self.networks)
        return bool(rule.prefix_list) or rule.peer_group in self.peers

    def sentence(self, ports: Ports) -> str:
        """Return why the file system cannot be mounted."""
        way = "to" if self.outbound else "from"
        peers = " or ".join(self.peers)
        numbers = _numbers(ports)
        return f"no rule of {' or '.join(self.groups)} admits TCP port {numbers} {way} {peers}"

    def command(self, ports: Ports, region: str) -> str:
        """Return the command that adds the missing rule."""
        verb = "egress" if self.outbound else "ingress"
        start = f"aws ec2 authorize-security-group-{verb} --region {region} --group-id {self.groups[0]}"
        peer = f"UserIdGroupPairs=[{{GroupId={self.peers[0]}}}]"
        return f"{start} --ip-permissions 'IpProtocol=tcp,FromPort={ports[0]},ToPort={ports[1]},{peer}'"


def _is_inside(network: str, cidr: str) -> bool:
    """Return True if a network with IPv4 addresses is a part of another one."""
    inner, outer = ip_network(network), ip_network(cidr)
    return isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network) and inner.subnet_of(outer)


def _numbers(ports: Ports) -> str:
    return str(ports[0]) if ports[0] == ports[1] else f"{ports[0]} to {ports[1]}"


def _ends(
    mountable: MountableFileSystem, jobs: tuple[str, ...], subnets: Sequence[Subnet], kind: str
) -> Iterator[_End]:
    """Yield the ends whose rules must admit the traffic; servers of Lustre also connect to their clients."""
    groups = tuple(sorted({group for interface in mountable.interfaces for group in interface.groups}))
    addresses = tuple(interface.address for interface in mountable.interfaces)
    cidrs = tuple(subnet.cidr for subnet in subnets)
    yield _End(groups=groups, outbound=False, peers=jobs, networks=cidrs)
    yield _End(groups=jobs, outbound=True, peers=groups, networks=addresses)
    if kind == "FSxLustre":
        yield _End(groups=jobs, outbound=False, peers=groups, networks=addresses)
