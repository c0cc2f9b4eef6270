from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.ecr.pulls import ImageNotFoundError, resolve
from localcloud.faults.plan import FaultPlan, Stub
from localcloud.sagemaker.initial_content import create_image, create_object
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import role

Client = Callable[..., Any]
ACCOUNT, AWS = "123456789012", "763104351884"
IMAGE = f"{AWS}.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.14-gpu"


@pytest.fixture(autouse=True)
def stubs(cloud: LocalCloud) -> Iterator[None]:
    cloud.faults.set(FaultPlan(stubs=(Stub(),)))
    yield
    cloud.faults.set(FaultPlan())


def create(client: Client, name: str, specification: dict[str, str]) -> None:
    role(client("iam"), "trains", "sagemaker.amazonaws.com")
    client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingInputMode": "Pipe", **specification},
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/trains",
        InputDataConfig=[
            {
                "ChannelName": "train",
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://campaigns/a/train"}},
            }
        ],
        OutputDataConfig={"S3OutputPath": "s3://campaigns/out"},
        ResourceConfig={"InstanceType": "ml.p3.16xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )


def test_a_training_job_finds_only_the_created_image_and_objects(cloud: LocalCloud, client: Client) -> None:
    with pytest.raises(ClientError, match="Cannot find repository: tensorflow-training in registry ID: 763104351884"):
        create(client, "no-image", {"TrainingImage": IMAGE})
    create_image(ACCOUNT, IMAGE)
    with pytest.raises(ClientError, match="No S3 objects found"):
        create(client, "no-data", {"TrainingImage": IMAGE})
    create_object(ACCOUNT, "us-east-1", "campaigns", "a/train/part-0")
    create(client, "all", {"TrainingImage": IMAGE})
    assert client("s3").list_objects_v2(Bucket="campaigns")["KeyCount"] == 1


def test_a_stub_accepts_features_that_real_training_jobs_lack(cloud: LocalCloud, client: Client) -> None:
    create_object(ACCOUNT, "us-east-1", "campaigns", "a/train/part-0")
    create(client, "algorithm", {"AlgorithmName": "my-algorithm"})
    cloud.faults.set(FaultPlan())
    with pytest.raises(ClientError, match="Requested resource not found"):
        create(client, "trains", {"AlgorithmName": "my-algorithm"})


def test_images_with_tags_and_digests_exist_in_one_repository(cloud: LocalCloud, client: Client) -> None:
    registry = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/grid/training"
    held = [f"{registry}:1", f"{registry}:2", f"{registry}@sha256:{'a' * 64}"]
    for uri in (*held, held[0]):
        create_image(ACCOUNT, uri)
    for uri in held:
        assert resolve(ACCOUNT, uri).command == ("true",)
    images = client("ecr").describe_images(repositoryName="grid/training")["imageDetails"]
    assert len(images) == len(held)


def test_another_accounts_image_requires_pull_permission(cloud: LocalCloud) -> None:
    create_image(AWS, IMAGE.replace("tensorflow", "private"))
    with pytest.raises(ImageNotFoundError, match=f"no such repository from which {ACCOUNT} may pull"):
        resolve(ACCOUNT, IMAGE.replace("tensorflow", "private"))
