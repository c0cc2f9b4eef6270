"""Network of training jobs: checks that the subnets and security groups of a Region fit the instances of its jobs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from traingrid.aws import file_systems
from traingrid.aws.clients import ActingRole
from traingrid.aws.file_systems import GroupRule
from traingrid.deploy.checkup.finding import Finding, Verdict, run_check
from traingrid.deploy.checkup.quotas import Need
from traingrid.grid.region import Region
from traingrid.manifest.hardware_warnings import has_efa
from traingrid.text import counted

_ADDRESSES, _ADDRESSES_WITH_EFA = 2, 5
"""The private addresses that a host needs at least (https://docs.aws.amazon.com/sagemaker/latest/dg/train-vpc.html,
"Ensure That Subnets Have Enough IP Addresses")."""
_ALL = "-1"
"""The protocol of a rule for all traffic (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html)."""
_EFA_GROUPS = "security groups for EFA"
_FREE_ADDRESSES = "free addresses of subnets"


def job_network(
    settings: Region, region: str, needs: Sequence[Need], role: ActingRole | None = None
) -> Iterator[Finding]:
    """Check the VPC of a Region's training jobs, if it has one: its free addresses and, with EFA, its security groups.

    Args:
        settings: The Region's section of grid.yaml.
        needs: The instances that jobs on SageMaker need in this Region.
    """
    if not settings.subnets or not needs:
        return
    look = partial(_check_free_addresses, settings, region, needs, role)
    yield run_check(region, _FREE_ADDRESSES, look, "ec2:DescribeSubnets")
    types = sorted({need.instance_type for need in needs if has_efa(need.instance_type)})
    if types:
        look = partial(_group_for_efa, settings.security_groups, region, ", ".join(types), role)
        yield run_check(region, _EFA_GROUPS, look, "ec2:DescribeSecurityGroupRules")


def _check_free_addresses(settings: Region, region: str, needs: Sequence[Need], role: ActingRole | None) -> Finding:
    """Compare the free addresses with the hosts of the largest job, and with those of all jobs.

    Hosts with EFA must be in one Availability Zone (https://docs.aws.amazon.com/parallelcluster/latest/ug/efa-v3.html).
    Jobs that run at present use addresses, too, so the numbers may rise later.
    """
    subnets = file_systems.subnets(settings.subnets, region, role)
    free_by_zone: Counter[str] = Counter()
    for subnet in subnets:
        free_by_zone[subnet.zone] += subnet.free_addresses
    total = free_by_zone.total()
    for need in sorted(needs, key=_addresses_of_largest_job, reverse=True):
        needed = _addresses_of_largest_job(need)
        free = max(free_by_zone.values()) if has_efa(need.instance_type) else total
        if free < needed:
            place = "in one zone" if free < total else f"in {counted(len(subnets), 'subnet')}"
            reason = f"at most {free} {place}, but the hosts of one job with {need.instance_type} need {needed}"
            fix = f"add a subnet of {subnets[0].vpc} with {needed} free addresses to subnets of {region} in grid.yaml"
            return Finding(region=region, subject=_FREE_ADDRESSES, verdict=Verdict.WRONG, reason=reason, fix=fix)
    needed_for_all_jobs = sum(need.all_jobs_instances * _addresses(need) for need in needs)
    needed = max(map(_addresses_of_largest_job, needs))
    reason = f"{total} in {counted(len(subnets), 'subnet')}, {needed} needed for one job"
    if total < needed_for_all_jobs:
        reason += f", {needed_for_all_jobs} for all at once: some could fail to start"
    return Finding(region=region, subject=_FREE_ADDRESSES, verdict=Verdict.GOOD, reason=reason)


def _addresses_of_largest_job(need: Need) -> int:
    return need.largest_job_instances * _addresses(need)


def _addresses(need: Need) -> int:
    return _ADDRESSES_WITH_EFA if has_efa(need.instance_type) else _ADDRESSES


def _group_for_efa(groups: Sequence[str], region: str, types: str, role: ActingRole | None) -> Finding:
    """Find a group that allows all traffic from and to itself.

    "EFA must be a member of a security group that allows all inbound and outbound traffic to and from the security
    group itself" (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html, and for training jobs
    https://docs.aws.amazon.com/sagemaker/latest/dg/train-vpc.html). A rule for the address range 0.0.0.0/0 does not
    replace the outbound rule: EKS adds both (https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html).
    """
    rules = file_systems.group_rules(groups, region, role)
    missing = {group: [way for way in ("ingress", "egress") if not _allows(rules, group, way)] for group in groups}
    group = min(groups, key=lambda name: len(missing[name]))
    if not missing[group]:
        reason = f"{group} allows all traffic of {types}"
        return Finding(region=region, subject=_EFA_GROUPS, verdict=Verdict.GOOD, reason=reason)
    ways = " and ".join("inbound" if way == "ingress" else "outbound" for way in missing[group])
    rule = f"{types} has EFA, which needs a group that allows all traffic from and to itself; {group} lacks the {ways}"
    fix = " && ".join(_command(way, group, region) for way in missing[group])
    reason = f"{rule} rule{'s' * (len(missing[group]) > 1)}"
    return Finding(region=region, subject=_EFA_GROUPS, verdict=Verdict.WRONG, reason=reason, fix=fix)


def _allows(rules: Iterable[GroupRule], group: str, way: str) -> bool:
    """Return True if a group has a rule for all traffic of one direction with its own members."""
    return any(
        rule.group == rule.peer_group == group and rule.protocol == _ALL and rule.outbound is (way == "egress")
        for rule in rules
    )


def _command(way: str, group: str, region: str) -> str:
    start = f"aws ec2 authorize-security-group-{way} --region {region} --group-id {group}"
    return f"{start} --ip-permissions 'IpProtocol={_ALL},UserIdGroupPairs=[{{GroupId={group}}}]'"
