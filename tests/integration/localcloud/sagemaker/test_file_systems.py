"""File systems in localcloud: training jobs mount folders of EFS and FSx for Lustre through their VPC."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.credentials.environments import user_environment
from localcloud.sagemaker.file_systems import folder_of
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT
from tests.integration.localcloud.training_side import READ, SageMaker, refusal
from tests.support.file_systems import REGION, a_lustre, a_network, an_efs
from traingrid.aws.file_systems import mountable

Client = Callable[..., Any]


@pytest.fixture
def sagemaker(client: Client) -> SageMaker:
    return SageMaker(client, REGION)


@pytest.fixture
def environment(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in user_environment(cloud.endpoint_url).items():
        monkeypatch.setenv(name, value)


def channel(name: str, kind: str, path: str, **others: Any) -> dict[str, Any]:
    source = {"FileSystemId": name, "FileSystemType": kind, "DirectoryPath": path, "FileSystemAccessMode": "ro"}
    return {"ChannelName": "train", "InputMode": "File", "DataSource": {"FileSystemDataSource": source}} | others


def put(cloud: LocalCloud, name: str, path: str, text: str) -> Path:
    place = folder_of(cloud.data_dir, ACCOUNT, REGION, name) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


@pytest.mark.parametrize("kind", ["EFS", "FSxLustre"])
def test_every_host_reads_the_folder_of_a_file_system(
    cloud: LocalCloud, client: Client, sagemaker: SageMaker, kind: str
) -> None:
    where = a_network(client)
    name = an_efs(client, where) if kind == "EFS" else a_lustre(client, where)
    put(cloud, name, "fsx/train/a", "mounted")
    put(cloud, name, "fsx/other/b", "not mounted")
    code = READ + "print(open(B + '/input/data/train/a').read(), os.listdir(B + '/input/data/train'));"
    code += "print(json.load(open(B + '/input/config/inputdataconfig.json'))['train'])"
    job = sagemaker.run(code, hosts=2, InputDataConfig=[channel(name, kind, "/fsx/train")], VpcConfig=where.config())
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    for host in (1, 2):
        assert sagemaker.lines(job, host)[:1] == ["mounted ['a']"]
    assert "S3DistributionType" not in sagemaker.lines(job)[1]
    assert job["InputDataConfig"][0]["DataSource"]["FileSystemDataSource"]["DirectoryPath"] == "/fsx/train"


def test_the_folder_of_a_file_system_outlives_its_jobs(cloud: LocalCloud, client: Client, sagemaker: SageMaker) -> None:
    where = a_network(client)
    name = an_efs(client, where)
    kept = put(cloud, name, "train/a", "kept")
    for _ in range(2):
        job = sagemaker.run("pass", InputDataConfig=[channel(name, "EFS", "/train")], VpcConfig=where.config())
        assert job["TrainingJobStatus"] == "Completed"
    assert kept.read_text() == "kept"


def test_a_job_fails_if_it_cannot_mount_a_file_system(cloud: LocalCloud, client: Client, sagemaker: SageMaker) -> None:
    here, elsewhere = a_network(client), a_network(client)
    name = an_efs(client, elsewhere)
    put(cloud, name, "train/a", "a")
    alone = str(client("efs", REGION).create_file_system(CreationToken=here.vpc)["FileSystemId"])
    in_vpc = "it has no network interface in the VPC of the training job"
    in_zone = "it has no network interface in the zone of the training job's subnets"
    distant = replace(here, subnets=here.subnets[1:])
    for where, source, reason in (
        (here, channel(name, "EFS", "/train"), in_vpc),
        (here, channel(alone, "EFS", "/train"), in_vpc),
        (here, channel(an_efs(client, here, zones=1), "EFS", "/train"), in_zone),
        (distant, channel(a_lustre(client, here), "FSxLustre", "/fsx"), in_zone),
        (elsewhere, channel(name, "EFS", "/other"), "the directory does not exist"),
        (elsewhere, channel(name, "FSxLustre", "/train"), f"no file system of this type exists in {REGION}"),
    ):
        job = sagemaker.run("pass", InputDataConfig=[source], VpcConfig=where.config())
        assert job["TrainingJobStatus"] == "Failed"
        assert job["FailureReason"].startswith("ClientError: Unable to mount ")
        assert reason in job["FailureReason"]


def test_a_request_that_cannot_mount_is_refused(client: Client, sagemaker: SageMaker) -> None:
    where = a_network(client)
    given = channel("fs-01234567", "EFS", "/train")
    pipe = {**given, "InputMode": "Pipe"}
    relative = channel("fs-01234567", "EFS", "train")
    both = {**given, "DataSource": given["DataSource"] | sagemaker.channel()["DataSource"]}
    vpc = where.config()
    cases: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
        (given, {}, "Invalid VpcConfig. It must be present, because channel 'train' is on a file system"),
        (pipe, {"VpcConfig": vpc}, "The input mode of channel 'train' on a file system must be File"),
        (relative, {"VpcConfig": vpc}, "The directory path of channel 'train' must be absolute"),
        (both, {"VpcConfig": vpc}, "Channel 'train' must have only one data source"),
    )
    for source, more, reason in cases:
        assert reason in refusal(sagemaker, sagemaker.request(InputDataConfig=[source], **more))


@pytest.mark.usefixtures("environment")
def test_fsx_has_an_interface_and_a_mount_name(client: Client) -> None:
    where = a_network(client)
    scratch, persistent = a_lustre(client, where), a_lustre(client, where, "PERSISTENT_2")
    found = mountable(scratch, "FSxLustre", REGION)
    assert found is not None
    assert found.mount_name == "fsx"
    assert [(one.vpc, one.zone, one.groups) for one in found.interfaces] == [(where.vpc, f"{REGION}a", (where.group,))]
    other = mountable(persistent, "FSxLustre", REGION)
    assert other is not None
    assert other.mount_name not in ("", "fsx")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("kind", ["EFS", "FSxLustre"])
def test_a_region_has_only_its_own_file_systems(client: Client, kind: str) -> None:
    where = a_network(client)
    name = an_efs(client, where) if kind == "EFS" else a_lustre(client, where)
    assert mountable(name, kind, REGION) is not None
    assert mountable(name, kind, "us-west-2") is None
    assert mountable(name, "FSxLustre" if kind == "EFS" else "EFS", REGION) is None


def test_fsx_refuses_an_unknown_file_system(client: Client) -> None:
    with pytest.raises(ClientError, match="FileSystemNotFound"):
        client("fsx", REGION).describe_file_systems(FileSystemIds=["fs-00000000"])
