"""File systems: doctor and the plan find file systems that training jobs cannot mount, before anything is created."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.sagemaker.file_systems import folder_of
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import Account
from tests.integration.control_plane.child_process import Line, ended
from tests.integration.localcloud.compute import ACCOUNT
from tests.support.file_systems import REGION, Network, a_lustre, a_network, admit, an_efs
from tests.support.sample_deployment import sample_deployment
from tests.support.sample_job import sample_job
from traingrid.aws.clients import client
from traingrid.deploy.checkup.file_systems import mounts
from traingrid.deploy.checkup.finding import Finding, Verdict
from traingrid.grid.model import GridSettings
from traingrid.grid.region import Region
from traingrid.job.job import Channel, Job
from traingrid.manifest.resource_checks import Resources

Client = Callable[..., Any]


@pytest.fixture
def where(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Network:
    for name, value in user_environment(cloud.endpoint_url).items():
        monkeypatch.setenv(name, value)
    return a_network(client)


def test_a_child_trains_on_a_folder_of_a_file_system(cloud: LocalCloud, account: Account) -> None:
    network = a_network(client)
    name = an_efs(client, network)
    folder = folder_of(cloud.data_dir, ACCOUNT, REGION, name) / "imagenet"
    folder.mkdir(parents=True)
    described = account.deployment.grid.model_dump(mode="json", exclude_defaults=True)
    described["regions"][REGION] = {
        "subnets": network.subnets,
        "security_groups": [network.group],
        "file_systems": {name: "EFS"},
    }
    mounting = copy(account)
    mounting.deployment = replace(account.deployment, grid=GridSettings.model_validate(described))
    channel = Channel.model_validate({"file_system": name, "type": "EFS", "path": "/imagenet"})
    changes = {"inputs": {"train": channel}, "hyperparameters": {"seconds": "0"}}
    line = Line(mounting, "0000f11e", sample_job(REGION).model_copy(update=changes))
    code, output = ended(line.child())
    assert code == 0, output
    assert line.item().state == "Completed"
    job = client("sagemaker", REGION).describe_training_job(TrainingJobName=f"{line.name}-1")
    assert job["VpcConfig"] == network.config() | {"SecurityGroupIds": [network.group]}
    assert job["InputDataConfig"][0]["DataSource"]["FileSystemDataSource"]["FileSystemAccessMode"] == "ro"


def checked(file_system: str, kind: str, where: Network, region: str = REGION) -> Finding:
    settings = {"subnets": where.subnets, "security_groups": [where.group], "file_systems": {file_system: kind}}
    (found,) = mounts(Region.model_validate(settings), region)
    return found


def planned(file_system: str, kind: str, path: str, where: Network) -> str:
    """Return the problem that the plan finds in the channel of a job."""
    sample = sample_deployment()
    region = {"subnets": where.subnets, "security_groups": [where.group], "file_systems": {file_system: kind}}
    grid = sample.grid.model_copy(update={"regions": {REGION: Region.model_validate(region)}})
    channel = Channel.model_validate({"file_system": file_system, "type": kind, "path": path})
    job: Job = sample_job(REGION).model_copy(update={"inputs": {"train": channel}, "image": ""})
    found = Resources(replace(sample, grid=grid)).check(job)
    assert not found.unchecked
    return found.trouble


def test_an_efs_whose_port_is_open_is_good(where: Network) -> None:
    name = an_efs(client, where)
    found = checked(name, "EFS", where)
    assert found.verdict is Verdict.WRONG
    assert found.reason == f"no rule of {where.group} admits TCP port 2049 from {where.group}"
    assert found.fix == (
        f"aws ec2 authorize-security-group-ingress --region {REGION} --group-id {where.group} --ip-permissions "
        f"'IpProtocol=tcp,FromPort=2049,ToPort=2049,UserIdGroupPairs=[{{GroupId={where.group}}}]'"
    )
    admit(client, where, 2049, 2049)
    assert checked(name, "EFS", where).verdict is Verdict.GOOD
    assert planned(name, "EFS", "/train", where) == ""


def test_all_ports_of_lustre_must_be_open(where: Network) -> None:
    name = a_lustre(client, where)
    assert "admits TCP port 988 from" in checked(name, "FSxLustre", where).reason
    admit(client, where, 988, 988)
    assert "admits TCP port 1018 to 1023 from" in checked(name, "FSxLustre", where).reason
    admit(client, where, 1018, 1020)
    assert "admits TCP port 1018 to 1023 from" in checked(name, "FSxLustre", where).reason
    admit(client, where, 1021, 1023)
    assert checked(name, "FSxLustre", where).verdict is Verdict.GOOD


@pytest.mark.parametrize(
    ("cidr", "verdict"),
    [
        ("10.0.0.0/16", Verdict.GOOD),
        ("0.0.0.0/0", Verdict.GOOD),
        ("10.0.0.0/24", Verdict.WRONG),  # the first of the two subnets
        ("192.168.0.0/16", Verdict.WRONG),
    ],
)
def test_a_rule_for_addresses_must_contain_every_subnet(where: Network, cidr: str, verdict: Verdict) -> None:
    name = an_efs(client, where)
    admit(client, where, 2049, 2049, IpRanges=[{"CidrIp": cidr}])
    assert checked(name, "EFS", where).verdict is verdict


def test_outbound_traffic_must_be_admitted_too(where: Network) -> None:
    name = an_efs(client, where)
    admit(client, where, 2049, 2049)
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    client("ec2", REGION).revoke_security_group_egress(GroupId=where.group, IpPermissions=everything)
    found = checked(name, "EFS", where)
    assert found.reason == f"no rule of {where.group} admits TCP port 2049 to {where.group}"
    assert "authorize-security-group-egress" in found.fix


@pytest.mark.parametrize("kind", ["EFS", "FSxLustre"])
def test_a_file_system_in_another_vpc_is_refused(where: Network, kind: str) -> None:
    elsewhere = a_network(client)
    name = an_efs(client, elsewhere) if kind == "EFS" else a_lustre(client, elsewhere)
    sentence = f"{name} is in {elsewhere.vpc}, but the training jobs of its Region run in {where.vpc}"
    found = checked(name, kind, where)
    assert (found.verdict, found.reason) == (Verdict.WRONG, sentence)
    assert planned(name, kind, "/fsx/train", where) == f"the file system {sentence}"


@pytest.mark.parametrize("kind", ["EFS", "FSxLustre"])
def test_a_file_system_of_another_region_or_type_does_not_exist(where: Network, kind: str) -> None:
    name, other = (an_efs(client, where), "FSxLustre") if kind == "EFS" else (a_lustre(client, where), "EFS")
    assert checked(name, kind, where, "us-west-2").reason == f"does not exist in us-west-2 with the type {kind}"
    assert checked(name, other, where).reason == f"does not exist in {REGION} with the type {other}"
    assert planned(name, other, "/fsx/a", where) == f"the file system {name} of type {other} does not exist in {REGION}"


def test_an_efs_needs_a_mount_target_in_each_zone(where: Network) -> None:
    name = an_efs(client, where, zones=1)
    found = checked(name, "EFS", where)
    assert found.reason == f"it has no mount target in {REGION}b, the zone of {where.subnets[1]}"
    assert f"aws efs create-mount-target --region {REGION} --file-system-id {name}" in found.fix


def test_lustre_needs_a_subnet_of_the_jobs_in_its_zone(where: Network) -> None:
    name = a_lustre(client, where)
    found = checked(name, "FSxLustre", replace(where, subnets=where.subnets[1:]))
    assert found.reason == f"it is in {REGION}a, and no subnet of {REGION} is in this zone"


def test_an_efs_without_mount_targets_cannot_be_mounted(where: Network) -> None:
    name = an_efs(client, where, zones=0)
    assert "has no network interface that is available" in checked(name, "EFS", where).reason
    assert "has no network interface that is available" in planned(name, "EFS", "/", where)


@pytest.mark.parametrize(("path", "trouble"), [("/fsx", ""), ("/fsx/a", ""), ("/fsxa", "mount name"), ("/a", "/fsx")])
def test_a_path_of_lustre_begins_with_its_mount_name(where: Network, path: str, trouble: str) -> None:
    found = planned(a_lustre(client, where), "FSxLustre", path, where)
    assert trouble in found
    assert bool(found) is bool(trouble)
