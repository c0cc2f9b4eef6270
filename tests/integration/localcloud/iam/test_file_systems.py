"""Enforcement for training jobs on file systems: a child may mount only those that grid.yaml lists, read-only."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from localcloud.faults.plan import FaultPlan, Stub
from localcloud.server.local_cloud import LocalCloud
from stacks.training_job_permissions import creation_conditions
from tests.integration.localcloud.compute import role
from tests.integration.localcloud.iam.test_iam import caller, refused
from tests.integration.localcloud.training_side import SageMaker
from tests.support.file_systems import REGION, Network, a_lustre, a_network, an_efs
from traingrid import names
from traingrid.grid.model import GridSettings

Client = Callable[..., Any]
CREATE = "sagemaker:CreateTrainingJob"


@pytest.fixture(scope="module")
def where(client: Client) -> Network:
    return a_network(client)


@pytest.fixture(scope="module")
def listed(client: Client, where: Network) -> dict[str, str]:
    return {an_efs(client, where): "EFS", a_lustre(client, where): "FSxLustre"}


@pytest.fixture(scope="module")
def child(cloud: LocalCloud, client: Client, where: Network, listed: dict[str, str]) -> Any:
    """Return SageMaker's client of a role with the conditions of a child, whose jobs are stubs."""
    cloud.faults.set(FaultPlan(stubs=(Stub(),)))
    region = {"subnets": where.subnets, "security_groups": [where.group], "file_systems": listed}
    grid = GridSettings.model_validate(
        {
            "name": "traingrid",
            "home": REGION,
            "regions": {REGION: region},
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": {"image": "resnet", "instance_type": "ml.c5.xlarge"},
            "training": {"encrypt_traffic": False},
        }
    )
    creates = {"Effect": "Allow", "Action": CREATE, "Resource": "*", "Condition": creation_conditions(grid, [REGION])}
    others = {"Effect": "Allow", "Action": ["sagemaker:AddTags", "iam:PassRole"], "Resource": "*"}
    return caller(cloud, role(client("iam"), "mounting-child", "ecs-tasks.amazonaws.com", creates, others))("sagemaker")


def request(sagemaker: SageMaker, where: Network, *mounted: tuple[str, str, str]) -> dict[str, Any]:
    """Return a request of a child with a channel for each id, type and access mode."""
    tags = (names.TAG_SUBMISSION, names.TAG_JOB, names.TAG_FINGERPRINT)
    channels = [
        {
            "ChannelName": f"channel-{number}",
            "InputMode": "File",
            "DataSource": {
                "FileSystemDataSource": {
                    "FileSystemId": name,
                    "FileSystemType": kind,
                    "DirectoryPath": "/fsx/train",
                    "FileSystemAccessMode": access,
                }
            },
        }
        for number, (name, kind, access) in enumerate(mounted)
    ]
    return sagemaker.request(
        InputDataConfig=channels or [sagemaker.channel()],
        VpcConfig=where.config(),
        Tags=[{"Key": names.TAG_GRID, "Value": "traingrid"}, *({"Key": tag, "Value": "x"} for tag in tags)],
    )


def test_a_child_mounts_every_listed_file_system(
    child: Any, sagemaker: SageMaker, where: Network, listed: dict[str, str]
) -> None:
    child.create_training_job(**request(sagemaker, where))
    child.create_training_job(**request(sagemaker, where, *((name, kind, "ro") for name, kind in listed.items())))


@pytest.mark.parametrize("wrong", ["another file system", "a writable mount"])
@pytest.mark.parametrize("beside", [False, True])
def test_a_child_mounts_no_other_one_and_writes_to_none(
    child: Any, sagemaker: SageMaker, where: Network, listed: dict[str, str], wrong: str, *, beside: bool
) -> None:
    """A listed file system in another channel of the request changes nothing."""
    mine = next(iter(listed))
    refused_one = ("fs-00000000", "EFS", "ro") if wrong == "another file system" else (mine, "EFS", "rw")
    allowed = [(mine, "EFS", "ro")] if beside else []
    for channels in ([*allowed, refused_one], [refused_one, *allowed]):
        asked = request(sagemaker, where, *channels)
        code, message = refused(partial(child.create_training_job, **asked))
        assert code == "AccessDeniedException"
        assert f"is not authorized to perform: {CREATE}" in message
