"""CreateTrainingJob: accepted requests, and refused requests with AWS's messages."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, image
from tests.integration.localcloud.training_side import READ, SageMaker, refusal


def test_a_name_is_reserved_in_its_region_until_its_ended_job_is_deleted(
    sagemaker: SageMaker, client: Callable[..., Any]
) -> None:
    request = sagemaker.request()
    arn = sagemaker.api.create_training_job(**request)["TrainingJobArn"]
    for _ in "running", "ended":
        with pytest.raises(ClientError) as error:
            sagemaker.api.create_training_job(**request)
        assert error.value.response["Error"]["Code"] == "ResourceInUse"
        assert error.value.response["Error"]["Message"] == (
            "Training job names must be unique within an AWS account and region, and a training job with this name "
            f"already exists ({arn})"
        )
        sagemaker.ended(request["TrainingJobName"])
    elsewhere = SageMaker(client, "eu-west-1")
    assert elsewhere.run(TrainingJobName=request["TrainingJobName"])["TrainingJobStatus"] == "Completed"
    sagemaker.api.delete_training_job(TrainingJobName=request["TrainingJobName"])
    listed = sagemaker.api.list_training_jobs(NameContains=request["TrainingJobName"])
    assert listed["TrainingJobSummaries"] == []
    assert elsewhere.ended(request["TrainingJobName"])["TrainingJobStatus"] == "Completed"
    assert sagemaker.api.create_training_job(**request)["TrainingJobArn"] == arn
    assert sagemaker.ended(request["TrainingJobName"])["TrainingJobStatus"] == "Completed"


def test_running_and_missing_jobs_cannot_be_deleted(sagemaker: SageMaker) -> None:
    name = sagemaker.create("import time; time.sleep(600)")
    for wrong, code in ((name, "ResourceInUse"), ("nobody", "ResourceNotFound")):
        with pytest.raises(ClientError) as error:
            sagemaker.api.delete_training_job(TrainingJobName=wrong)
        assert error.value.response["Error"]["Code"] == code
    assert sagemaker.api.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "InProgress"
    sagemaker.api.stop_training_job(TrainingJobName=name)


def test_only_one_of_many_concurrent_creations_of_a_name_succeeds(sagemaker: SageMaker, cloud: LocalCloud) -> None:
    request = sagemaker.request()
    together = threading.Barrier(10)  # fewer than CreateTrainingJob's burst limit

    def create(_: int) -> str:
        together.wait()
        try:
            return str(sagemaker.api.create_training_job(**request)["TrainingJobArn"])
        except ClientError as error:
            return str(error.response["Error"]["Code"])

    with ThreadPoolExecutor(10) as pool:
        answers = Counter(pool.map(create, range(10)))
    assert answers.pop("ResourceInUse") == 9
    assert list(answers) == [sagemaker.ended(request["TrainingJobName"])["TrainingJobArn"]]
    created = [entry["parameters"] for entry in cloud.record.entries("sagemaker", "CreateTrainingJob")]
    assert [each["TrainingJobName"] for each in created].count(request["TrainingJobName"]) == 1


def test_an_unknown_job_raises_a_validation_exception(sagemaker: SageMaker) -> None:
    for call in (sagemaker.api.describe_training_job, sagemaker.api.stop_training_job):
        with pytest.raises(ClientError, match=r"Requested resource not found\.") as error:
            call(TrainingJobName="nobody")
        assert error.value.response["Error"]["Code"] == "ValidationException"


def test_requests_beyond_the_service_models_limits_return_awss_errors(sagemaker: SageMaker) -> None:
    request = sagemaker.request()
    long = refusal(sagemaker, request | {"TrainingJobName": "x" * 64})
    assert long.startswith(f"2 validation errors detected: Value '{'x' * 64}' at 'trainingJobName' failed to satisfy")
    assert "Member must have length less than or equal to 63" in long
    resources = request["ResourceConfig"]
    assert "at 'resourceConfig.instanceType' failed to satisfy constraint: Member must satisfy enum value set: [" in (
        refusal(sagemaker, request | {"ResourceConfig": resources | {"InstanceType": "ml.bogus"}})
    )
    assert refusal(sagemaker, request | {"HyperParameters": {"a": "x" * 2501}}).endswith(
        "Map value must satisfy constraint: [Member must have length less than or equal to 2500, "
        "Member must have length greater than or equal to 0, Member must satisfy regular expression pattern: .*]"
    )
    assert "at 'inputDataConfig' failed to satisfy constraint: Member must have length less than or equal to 20" in (
        refusal(sagemaker, request | {"InputDataConfig": [sagemaker.channel(f"c{n}") for n in range(21)]})
    )
    assert "at 'inputDataConfig.1.member.channelName'" in (
        refusal(sagemaker, request | {"InputDataConfig": [sagemaker.channel("a b")]})
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/nobody"}, "Could not assume role arn:aws:iam"),
        ({"EnableManagedSpotTraining": True}, "It must be present and be greater than or equal to MaxRuntimeInSeconds"),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60}},
            "It is only supported when EnableManagedSpotTraining is set to true",
        ),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 28 * 86400 + 1}}, "Invalid MaxRuntimeInSeconds"),
        ({"AlgorithmSpecification": None}, "AlgorithmSpecification must be present"),
        ({"ResourceConfig": {"VolumeSizeInGB": 5}}, "InstanceType and InstanceCount must be present"),
    ],
)
def test_requests_that_violate_awss_rules_are_refused(
    sagemaker: SageMaker, change: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(sagemaker, {k: v for k, v in (sagemaker.request() | change).items() if v})


def test_data_must_exist_in_the_jobs_region(sagemaker: SageMaker, client: Callable[..., Any]) -> None:
    far = SageMaker(client, "us-west-2")
    for uri in (f"s3://{sagemaker.bucket}/nothing", "s3://no-such-bucket/x", f"s3://{far.bucket}/data"):
        message = refusal(sagemaker, sagemaker.request(InputDataConfig=[sagemaker.channel("train", uri)]))
        assert message.startswith(f'No S3 objects found under S3 URL "{uri}" given in input data source.')
    assert "The bucket is in this region: us-west-2" in message


def test_deleted_objects_are_ignored(client: Callable[..., Any]) -> None:
    sagemaker = SageMaker(client, "us-west-2")
    versioned = {"Status": "Enabled"}
    sagemaker.s3.put_bucket_versioning(Bucket=sagemaker.bucket, VersioningConfiguration=versioned)
    sagemaker.put("gone/a", "A")
    sagemaker.s3.delete_object(Bucket=sagemaker.bucket, Key="gone/a")
    channel = sagemaker.channel(uri=f"s3://{sagemaker.bucket}/gone")
    assert "No S3 objects found" in refusal(sagemaker, sagemaker.request(InputDataConfig=[channel]))


def test_files_of_an_earlier_server_do_not_reach_a_job(sagemaker: SageMaker, cloud: LocalCloud) -> None:
    request = sagemaker.request(READ + "open(B + '/model/new', 'w').close()")
    left = cloud.data_dir / "training" / "us-east-1" / request["TrainingJobName"] / "algo-1/opt-ml/model"
    left.mkdir(parents=True)
    (left / "old").touch()
    sagemaker.api.create_training_job(**request)
    sagemaker.ended(request["TrainingJobName"])
    assert sagemaker.archive(request["TrainingJobName"], "model.tar.gz") == ["new"]


def test_channel_names_must_be_unique(sagemaker: SageMaker) -> None:
    request = sagemaker.request(InputDataConfig=[sagemaker.channel(), sagemaker.channel()])
    assert "'train' is used more than once" in refusal(sagemaker, request)


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("ubuntu:22.04", "Invalid training image."),
        (f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/none:v1", "Cannot find repository: none in registry ID"),
        (f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/there:v2", "Cannot find the requested image:"),
        (f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/there:v1", "Cannot find repository: there"),
    ],
)
def test_the_image_must_exist_in_the_uris_region(sagemaker: SageMaker, uri: str, sentence: str) -> None:
    image(sagemaker.ecr, "there", "pass")
    request = sagemaker.request()
    request["AlgorithmSpecification"]["TrainingImage"] = uri
    assert sentence in refusal(sagemaker, request)
