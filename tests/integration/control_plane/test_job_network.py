"""The network of training jobs: doctor compares subnets and security groups with the instances of jobs."""

from typing import Any

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.support.file_systems import REGION, Network, a_network, admit
from traingrid.aws.clients import client
from traingrid.cli.main import cli
from traingrid.deploy.checkup.finding import Finding, Verdict
from traingrid.deploy.checkup.job_network import job_network
from traingrid.deploy.checkup.quotas import Need
from traingrid.errors import TraingridError
from traingrid.grid.region import Region

EFA, OTHER = "ml.p4d.24xlarge", "ml.g5.xlarge"
FREE = 2 * 251  # of two subnets with 256 addresses, of which AWS reserves five each


@pytest.fixture
def where(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Network:
    for name, value in user_environment(cloud.endpoint_url).items():
        monkeypatch.setenv(name, value)
    return a_network(client)


def need(kind: str, largest: int = 2, together: int = 0) -> Need:
    instances = {"largest_job_instances": largest, "all_jobs_instances": together or largest}
    return Need(region=REGION, instance_type=kind, spot=False, **instances)


def checked(where: Network, *needs: Need, groups: tuple[str, ...] = ()) -> dict[str, Finding]:
    settings = {"subnets": where.subnets, "security_groups": [where.group, *groups]}
    return {found.subject: found for found in job_network(Region.model_validate(settings), REGION, needs)}


def of_groups(where: Network, kind: str = EFA, groups: tuple[str, ...] = ()) -> Finding:
    return checked(where, need(kind), groups=groups)["security groups for EFA"]


def of_addresses(where: Network, *needs: Need) -> Finding:
    return checked(where, *needs)["free addresses of subnets"]


def allow(where: Network, way: str, **rule: Any) -> None:
    """Add a rule, by default for all traffic with the group itself."""
    made = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": where.group}], **rule}
    add = getattr(client("ec2", REGION), f"authorize_security_group_{way}")
    add(GroupId=where.group, IpPermissions=[made])


def command(where: Network, way: str) -> str:
    return (
        f"aws ec2 authorize-security-group-{way} --region {REGION} --group-id {where.group} "
        f"--ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{{GroupId={where.group}}}]'"
    )


def test_a_group_for_efa_allows_all_traffic_from_and_to_itself(where: Network) -> None:
    found = of_groups(where)  # the group has the outbound rule for 0.0.0.0/0 of every new group
    assert found.verdict is Verdict.WRONG
    assert found.reason == (
        f"{EFA} has EFA, which needs a group that allows all traffic from and to itself; {where.group} lacks the "
        "inbound and outbound rules"
    )
    assert found.fix == f"{command(where, 'ingress')} && {command(where, 'egress')}"
    allow(where, "ingress")
    assert of_groups(where).reason.endswith(f"{where.group} lacks the outbound rule")
    assert of_groups(where).fix == command(where, "egress")
    allow(where, "egress")
    assert of_groups(where).verdict is Verdict.GOOD


def test_rules_for_some_ports_or_other_groups_are_not_enough(where: Network) -> None:
    admit(client, where, 0, 65535)
    other = client("ec2", REGION).create_security_group(VpcId=where.vpc, GroupName="o", Description="o")["GroupId"]
    for way in ("ingress", "egress"):
        allow(where, way, UserIdGroupPairs=[{"GroupId": other}])
    assert of_groups(where, groups=(other,)).verdict is Verdict.WRONG


def test_one_of_several_groups_is_enough(where: Network) -> None:
    other = client("ec2", REGION).create_security_group(VpcId=where.vpc, GroupName="o", Description="o")["GroupId"]
    for way in ("ingress", "egress"):
        allow(where, way)
    assert of_groups(where, groups=(other,)).verdict is Verdict.GOOD


def test_types_without_efa_and_regions_without_a_vpc_need_no_such_group(where: Network) -> None:
    assert list(checked(where, need(OTHER))) == ["free addresses of subnets"]
    assert list(job_network(Region(), REGION, [need(EFA)])) == []


@pytest.mark.parametrize(
    ("kind", "hosts", "verdict"),
    [
        (EFA, 251 // 5, Verdict.GOOD),  # in the subnet of one zone
        (EFA, 251 // 5 + 1, Verdict.WRONG),
        (OTHER, FREE // 2, Verdict.GOOD),
        (OTHER, FREE // 2 + 1, Verdict.WRONG),
    ],
)
def test_a_job_needs_two_addresses_for_each_host_and_five_with_efa(
    where: Network, kind: str, hosts: int, verdict: Verdict
) -> None:
    assert of_addresses(where, need(kind, hosts)).verdict is verdict


def test_missing_addresses_are_counted_with_the_fix(where: Network) -> None:
    found = of_addresses(where, need(OTHER, 3), need(EFA, 60))
    assert found.reason == f"at most 251 in one zone, but the hosts of one job with {EFA} need 300"
    assert found.fix == f"add a subnet of {where.vpc} with 300 free addresses to subnets of {REGION} in grid.yaml"


def test_jobs_that_do_not_fit_at_once_are_mentioned(where: Network) -> None:
    found = of_addresses(where, need(OTHER, 2, together=300))
    assert found.verdict is Verdict.GOOD
    assert found.reason == f"{FREE} in 2 subnets, 4 needed for one job, 600 for all at once: some could fail to start"


def test_a_subnet_that_does_not_exist_is_reported(where: Network) -> None:
    found = of_addresses(Network(where.vpc, ["subnet-0123456789abcdef0"], where.group), need(OTHER))
    assert found.verdict is Verdict.UNKNOWN
    assert "InvalidSubnetID.NotFound" in found.reason


def test_the_command_checks_the_network_of_its_regions(
    where: Network, tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    (tmp_path / "grid.yaml").write_text(
        "name: networked\n"
        f"home: {REGION}\n"
        f"regions: {{{REGION}: {{subnets: [{', '.join(where.subnets)}], security_groups: [{where.group}]}}}}\n"
        'images: {resnet: {repository: training, tag: "1"}}\n'
        f"job: {{image: resnet, instance_type: {EFA}, instance_count: 2}}\n"
    )
    with pytest.raises(TraingridError):  # nothing is deployed
        cli.main(["--grid", str(tmp_path / "grid.yaml"), "doctor"], standalone_mode=False)
    output = capsys.readouterr().out
    assert f"{REGION} security groups for EFA: {command(where, 'ingress')} && {command(where, 'egress')}" in output
    assert f"{FREE} in 2 subnets, 10 needed for one job" in output
