"""SageMaker: requests that CreateTrainingJob refuses, and its error messages."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from botocore import auth

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.identity import allow, role
from conformance.resources.training import Training
from conformance.sources import model, page

_AUGMENTED = "https://docs.aws.amazon.com/sagemaker/latest/dg/augmented-manifest-stream.html"
_LIMITS = "traingrid/manifest/limits.py traingrid/job/job.py"


def _refused(aws: Aws, text: str = "", **members: Any) -> None:
    training = Training.of(aws)
    with refused("ValidationException", text=text):
        training.start(**members)


@claim(model("sagemaker", "HyperParameters", '"max": 100'), used_by=_LIMITS)
def at_most_100_hyperparameters(aws: Aws) -> None:
    """A request with 101 hyperparameters is refused."""
    _refused(aws, HyperParameters={f"h{number}": "1" for number in range(101)})


@claim(model("sagemaker", "HyperParameterValue", '"max": 2500'), used_by=_LIMITS)
def hyperparameter_of_at_most_2500_characters(aws: Aws) -> None:
    """A hyperparameter of 2,501 characters is refused."""
    _refused(aws, HyperParameters={"long": "v" * 2501})


@claim(
    model("sagemaker", "HyperParameterValue", '"max": 2500'),
    used_by="traingrid/manifest/limits.py traingrid/backends/sagemaker/request.py",
    trainings=1,
)
def hyperparameter_of_2500_characters(aws: Aws) -> None:
    """A hyperparameter of 2,500 characters is accepted, although the text of the API reference states 256."""
    training = Training.of(aws)
    training.start(HyperParameters={"long": "v" * 2500})


@claim(model("sagemaker", "TrainingEnvironmentValue", '"max": 512'), used_by=_LIMITS)
def environment_value_of_at_most_512_characters(aws: Aws) -> None:
    """An environment variable of 513 characters is refused."""
    _refused(aws, Environment={"LONG": "v" * 513})


@claim(
    model("sagemaker", "TrainingEnvironmentMap", '"max": 100'),
    used_by="traingrid/backends/sagemaker/metric_variables.py",
)
def at_most_100_environment_variables(aws: Aws) -> None:
    """A request with 101 environment variables is refused."""
    _refused(aws, Environment={f"V{number}": "1" for number in range(101)})


@claim(
    model("sagemaker", "InputDataConfig", '"max": 20'),
    used_by="traingrid/job/channels.py traingrid/manifest/checks/channels.py",
)
def at_most_20_channels(aws: Aws) -> None:
    """A request with 21 channels is refused."""
    training = Training.of(aws)
    _refused(aws, InputDataConfig=[training.channel(f"c{number}", "data/") for number in range(21)])


@claim(model("sagemaker", "TagList", '"max": 50'), used_by="traingrid/job/ownership.py traingrid/manifest/limits.py")
def at_most_50_tags(aws: Aws) -> None:
    """A request with 51 tags is refused."""
    _refused(aws, Tags=[{"Key": f"key{number}", "Value": "v"} for number in range(51)])


@claim(
    model("sagemaker", "MetricDefinitionList", '"max": 40'),
    used_by="traingrid/backends/sagemaker/request.py",
)
def at_most_40_metric_definitions(aws: Aws) -> None:
    """A request with 41 metric definitions is refused."""
    training = Training.of(aws)
    request = training.request()
    metrics = [{"Name": f"m{number}", "Regex": "x=([0-9]+)"} for number in range(41)]
    request["AlgorithmSpecification"]["MetricDefinitions"] = metrics
    with refused("ValidationException"):
        training.create(request)


@claim(
    model("sagemaker", "StoppingCondition", "The maximum value is 28 days"),
    used_by="traingrid/manifest/allowed.py traingrid/grid/limits.py",
)
def at_most_28_days(aws: Aws) -> None:
    """A MaxRuntimeInSeconds of more than 28 days is refused."""
    _refused(aws, StoppingCondition={"MaxRuntimeInSeconds": 28 * 24 * 3600 + 1})


@claim(
    page(
        "https://github.com/Kenza-AI/sagify/issues/111", "only supported when EnableManagedSpotTraining is set to true"
    ),
    used_by="traingrid/backends/sagemaker/request.py traingrid/manifest/allowed.py",
)
def wait_time_is_for_spot_only(aws: Aws) -> None:
    """A MaxWaitTimeInSeconds without EnableManagedSpotTraining is refused."""
    condition = {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 600}
    _refused(aws, "MaxWaitTimeInSeconds", StoppingCondition=condition)


@claim(
    model("sagemaker", "StoppingCondition", "It must be equal to or greater than MaxRuntimeInSeconds"),
    used_by="traingrid/manifest/allowed.py",
)
def wait_time_is_not_below_the_runtime(aws: Aws) -> None:
    """A spot request whose MaxWaitTimeInSeconds is less than its MaxRuntimeInSeconds is refused."""
    condition = {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 599}
    _refused(aws, EnableManagedSpotTraining=True, StoppingCondition=condition)


@claim(
    page("https://github.com/aws/amazon-sagemaker-examples/issues/2489", "No S3 objects found under S3 URL"),
    used_by="traingrid/job/failures.py",
)
def missing_data_is_refused_at_once(aws: Aws) -> None:
    """A prefix without objects is refused immediately: No S3 objects found under S3 URL."""
    training = Training.of(aws)
    _refused(aws, "No S3 objects found under S3 URL", InputDataConfig=[training.channel("train", "nowhere/")])


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html",
        "Your training job must connect to a VPC to access Amazon EFS",
    ),
    used_by="traingrid/grid/region.py traingrid/manifest/allowed.py",
)
def file_system_requires_a_vpc(aws: Aws) -> None:
    """A request with a channel on a file system and without VpcConfig is refused."""
    source = {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemType": "EFS",
        "DirectoryPath": "/train",
        "FileSystemAccessMode": "ro",
    }
    channel = {"ChannelName": "train", "InputMode": "File", "DataSource": {"FileSystemDataSource": source}}
    _refused(aws, InputDataConfig=[channel])


@claim(
    model("sagemaker", "S3DataSource", "Your input bucket must be in the same Amazon Web Services region"),
    used_by="traingrid/manifest/check.py traingrid/job/failures.py",
)
def data_of_another_region_is_refused(aws: Aws) -> None:
    """Data in a bucket in another Region is refused."""
    there, here = Training.of(aws, aws.away), Training.of(aws)
    with refused("ValidationException"):
        here.start(InputDataConfig=[there.channel("train", "data/")])


@claim(
    page("https://github.com/awslabs/predictive-maintenance-using-machine-learning/issues/3", "Could not assume role"),
    used_by="traingrid/job/failures.py",
)
def role_must_trust_sagemaker(aws: Aws) -> None:
    """A role that SageMaker cannot assume is refused: Could not assume role."""
    other = aws.once("role/other", lambda: role(aws, "other", {"Service": "ecs-tasks.amazonaws.com"}, allow("s3:*")))
    _refused(aws, "Could not assume role", RoleArn=other)


@claim(
    page("https://github.com/aws/amazon-sagemaker-examples/issues/1476", "Cannot find the requested image"),
    used_by="traingrid/job/failures.py",
)
def missing_image_is_refused_at_once(aws: Aws) -> None:
    """A missing image tag is refused immediately: Cannot find the requested image."""
    training = Training.of(aws)
    request = training.request()
    request["AlgorithmSpecification"]["TrainingImage"] = f"{training.image}-missing"
    with refused("ValidationException", text="requested image"):
        training.create(request)


@claim(
    page("https://github.com/aws/amazon-sagemaker-examples/issues/2534", "Cannot find repository"),
    used_by="traingrid/job/failures.py",
)
def missing_repository_is_refused_at_once(aws: Aws) -> None:
    """An image in a missing repository is refused immediately, and the message names the repository."""
    training = Training.of(aws)
    request = training.request()
    request["AlgorithmSpecification"]["TrainingImage"] = training.image.replace("images", "missing")
    with refused("ValidationException", text="repository"):
        training.create(request)


@claim(
    model("sagemaker", "AlgorithmSpecification", "registry/repository[@digest] image path formats"),
    used_by="traingrid/grid/image.py stacks/image_build.py",
    trainings=1,
)
def image_may_be_named_by_its_digest(aws: Aws) -> None:
    """A training image may be specified by its digest."""
    training = Training.of(aws)
    name, _, tag = training.image.partition("/")[2].partition(":")
    found = aws.client("ecr").describe_images(repositoryName=name, imageIds=[{"imageTag": tag}])
    digest = found["imageDetails"][0]["imageDigest"]
    request = training.request()
    request["AlgorithmSpecification"]["TrainingImage"] = f"{training.image.rpartition(':')[0]}@{digest}"
    training.create(request)


def _start_with_pipe(aws: Aws, members: dict[str, str]) -> None:
    """Start a training job with a Pipe channel in addition to that of its program."""
    training = Training.of(aws)
    program = training.request()["InputDataConfig"]
    training.start(InputDataConfig=[*program, training.channel("train", "data/", "Pipe") | members])


@claim(
    model("sagemaker", "Channel", "CompressionType is used only in Pipe input mode"),
    used_by="docs/input.md",
    not_modelled="compressed data is not decompressed",
    trainings=1,
)
def compressed_data_in_pipe_mode(aws: Aws) -> None:
    """A Pipe channel with CompressionType Gzip is accepted."""
    _start_with_pipe(aws, {"CompressionType": "Gzip"})


@claim(
    model("sagemaker", "Channel", "SageMaker wraps each individual S3 object in a RecordIO record"),
    used_by="traingrid/backends/sagemaker/request.py docs/input.md",
    trainings=1,
)
def recordio_in_pipe_mode(aws: Aws) -> None:
    """A Pipe channel with RecordWrapperType RecordIO is accepted."""
    _start_with_pipe(aws, {"RecordWrapperType": "RecordIO"})


@claim(
    model("sagemaker", "S3DataSource", "AugmentedManifestFile can only be used if the Channel's input mode is Pipe"),
    model("sagemaker", "ShuffleConfig", "the order of the JSON lines in the AugmentedManifestFile is shuffled"),
    page(_AUGMENTED, "specifying RecordIO for RecordWrapperType solves this issue"),
    used_by="traingrid/backends/sagemaker/request.py traingrid/manifest/checks/channels.py",
    trainings=1,
)
def augmented_manifest_in_pipe_mode(aws: Aws) -> None:
    """A Pipe channel with an augmented manifest, RecordWrapperType RecordIO and a ShuffleConfig is accepted.

    The records in its stream are not checked here.
    """
    training = Training.of(aws)
    training.put("augmented.jsonl", json.dumps({"text-ref": f"s3://{training.bucket}/data/a", "label": 1}) + "\n")
    channel = training.channel("train", "augmented.jsonl", "Pipe", S3DataType="AugmentedManifestFile")
    channel["DataSource"]["S3DataSource"]["AttributeNames"] = ["text-ref", "label"]
    more = {"RecordWrapperType": "RecordIO", "ShuffleConfig": {"Seed": 7}}
    training.start(InputDataConfig=[*training.request()["InputDataConfig"], channel | more])


@claim(
    model("sagemaker", "S3DataSource", "AugmentedManifestFile can only be used if the Channel's input mode is Pipe"),
    page(_AUGMENTED, "Augmented manifest files are supported only for channels using Pipe input mode"),
    used_by="traingrid/manifest/checks/channels.py",
)
def augmented_manifest_in_file_mode_is_refused(aws: Aws) -> None:
    """A File channel with an augmented manifest is refused."""
    channel = Training.of(aws).channel("train", "data/a", "File", S3DataType="AugmentedManifestFile")
    channel["DataSource"]["S3DataSource"]["AttributeNames"] = ["label"]
    _refused(aws, "AugmentedManifestFile", InputDataConfig=[channel])


@claim(
    model("sagemaker", "ResourceConfig", "You can't request a VolumeKmsKeyId when using an instance type"),
    used_by="traingrid/backends/sagemaker/request.py traingrid/job/accelerators.py",
    not_modelled="instance types differ only in their quotas and GPUs",
)
def volume_key_with_local_storage_is_refused(aws: Aws) -> None:
    """A VolumeKmsKeyId with an instance type that has local storage is refused before quotas are checked."""
    key = f"arn:aws:kms:{aws.home}:{aws.account}:key/00000000-0000-0000-0000-000000000000"
    local = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1, "VolumeKmsKeyId": key}
    _refused(aws, "VolumeKmsKeyId", ResourceConfig=local)


@documented(
    model("sagemaker", "CreateTrainingJob", "ResourceLimitExceeded"),
    page("https://github.com/zenml-io/zenml/issues/847", "Resource Limit Exceeded on AWS"),
    used_by="traingrid/job/failures.py traingrid/child/launch.py",
    why="a request above the expected quota would start instances if the account's quota is larger",
)
def quota_is_refused_at_once(aws: Aws) -> None:
    """CreateTrainingJob beyond a quota is refused with ResourceLimitExceeded, and creates no training job."""


@documented(
    page(
        "https://github.com/DIAGNijmegen/rse-grand-challenge/issues/2631",
        "CapacityError: Unable to provision requested ML compute capacity",
    ),
    page(
        "https://github.com/aws/sagemaker-pytorch-training-toolkit/pull/171",
        "Failed Reason: CapacityError: Unable to provision requested ML compute capacity",
    ),
    used_by="traingrid/job/failures.py traingrid/child/supervisor.py",
    why="a lack of capacity cannot be provoked",
)
def missing_capacity_is_a_failure(aws: Aws) -> None:
    """A training job without capacity ends as Failed, with a FailureReason that begins with CapacityError."""


@documented(
    model("sagemaker", "RetryStrategy", "fails due to an InternalServerError"),
    model("sagemaker", "StoppingCondition", "the maximum time for all of the attempts in total"),
    used_by="traingrid/backends/sagemaker/request.py docs/manifest-fields.md",
    why="an internal error of SageMaker cannot be provoked",
)
def sagemaker_retries_its_own_errors(aws: Aws) -> None:
    """SageMaker's RetryStrategy retries after an InternalServerError; MaxRuntimeInSeconds covers all attempts."""


@claim(
    page(
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_aws-signing.html",
        "must reach AWS within five minutes of the time stamp",
    ),
    page("https://github.com/boto/botocore/issues/149", "Signature expired"),
    used_by="traingrid/late_request.py traingrid/aws/outage.py",
)
def request_that_was_signed_long_ago_is_refused(aws: Aws) -> None:
    """A request of SageMaker that was signed 16 minutes ago is refused, and one that was signed just now is not."""
    sagemaker, name = aws.client("sagemaker"), aws.name("late")
    thread, signing_time = threading.get_ident(), auth.get_current_datetime  # type: ignore[attr-defined]  # its stub is older
    for minutes, code, text in ((0, "ValidationException", ""), (16, "InvalidSignatureException", "Signature expired")):
        signed_at = (datetime.now(UTC) - timedelta(minutes=minutes)).replace(tzinfo=None)

        def at(when: datetime = signed_at) -> datetime:  # other claims sign their requests in other threads
            return when if threading.get_ident() == thread else signing_time()

        with patch("botocore.auth.get_current_datetime", at), refused(code, text=text):
            sagemaker.describe_training_job(TrainingJobName=name)
