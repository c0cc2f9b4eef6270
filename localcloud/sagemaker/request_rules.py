"""Rules of CreateTrainingJob beyond the service model: AWS's own rules, and features that localcloud lacks.

Messages are AWS's if they are public (each cites its source); the others state the rule in AWS's style.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from moto.s3.exceptions import MissingBucket
from moto.s3.models import FakeDeleteMarker, s3_backends
from moto.sagemaker.exceptions import AWSValidationException

from localcloud.credentials.arn import name_of_arn
from localcloud.ecr import process_images
from localcloud.ecr.pulls import ImageNotFoundError
from localcloud.iam.resource_policies import allows_service
from localcloud.iam.roles import trust_of
from localcloud.sagemaker.algorithms import published
from localcloud.sagemaker.request import Channel, S3Uri, channels

# API reference, StoppingCondition: "The maximum value is 28 days".
MAX_RUNTIME_SECONDS = 28 * 24 * 3600
_DATA_TYPES = ("S3Prefix", "ManifestFile", "AugmentedManifestFile")
_PULL = "ecr:BatchCheckLayerAvailability, ecr:BatchGetImage, ecr:GetDownloadUrlForLayer"


def check(request: Mapping[str, Any], account: str, region: str, *, stub: bool = False) -> None:
    """Check a request that the service model has accepted.

    Args:
        stub: True if the job will be a stub, which needs none of the features that localcloud lacks.

    Raises:
        AWSValidationException: If AWS refuses the request, or localcloud lacks a feature; the message names it.
    """
    _check_present(request)
    if not stub:
        _check_left_out(request)
    _check_times(request)
    _check_resources(request.get("ResourceConfig") or {})
    job = f"arn:aws:sagemaker:{region}:{account}:training-job/{request['TrainingJobName']}"
    _check_role(str(request["RoleArn"]), account, job)
    _check_image(request, account)
    _check_metrics(request)
    _check_file_systems(request)
    _check_channels(channels(request), str(request["RoleArn"]), account, region)


def _refuse(message: str) -> None:
    raise AWSValidationException(message)


def _check_present(request: Mapping[str, Any]) -> None:
    """Require members that the model leaves optional for serverless jobs, which localcloud lacks."""
    for name in ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition"):
        if not request.get(name):
            _refuse(f"Invalid request. {name} must be present")


def _check_left_out(request: Mapping[str, Any]) -> None:
    """Refuse features that localcloud lacks and whose absence would affect a training job.

    DebugHookConfig and ProfilerConfig are accepted and described, because the SageMaker Python SDK v2 sends them unless
    they are disabled (https://sagemaker.readthedocs.io/en/stable/api/training/estimators.html). The hook saves tensors
    only if the image has the library smdebug, and no training job reads the profiler's files. Rules would start
    processing jobs, which localcloud lacks.
    """
    rules = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
    for name in ("ServerlessJobConfig", "TensorBoardOutputConfig", *rules):
        if request.get(name):
            _refuse(f"{name} is not supported by localcloud; remove it")
    for channel in request.get("InputDataConfig") or []:
        source = channel["DataSource"].get("S3DataSource") or {}
        file_system = channel["DataSource"].get("FileSystemDataSource")
        if not file_system and source.get("S3DataType") not in _DATA_TYPES:
            _refuse(
                f"channel {channel['ChannelName']}: localcloud reads only FileSystemDataSource, and S3DataSource of "
                f"the types {', '.join(_DATA_TYPES)}"
            )
        if channel.get("CompressionType", "None") != "None":
            _refuse(f"channel {channel['ChannelName']}: localcloud does not decompress data; remove CompressionType")
    local = (request.get("CheckpointConfig") or {}).get("LocalPath", "/opt/ml/checkpoints")
    if not local.startswith("/opt/ml/"):
        _refuse(f"CheckpointConfig.LocalPath {local} is outside /opt/ml, which localcloud does not support")


def _check_times(request: Mapping[str, Any]) -> None:
    condition = request.get("StoppingCondition") or {}
    runtime = condition.get("MaxRuntimeInSeconds", 24 * 3600)
    wait = condition.get("MaxWaitTimeInSeconds")
    if not 1 <= runtime <= MAX_RUNTIME_SECONDS:
        _refuse(f"Invalid MaxRuntimeInSeconds. It must be between 1 and {MAX_RUNTIME_SECONDS}")
    if request.get("EnableManagedSpotTraining"):
        if wait is None or wait < runtime:
            _refuse(
                "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds"
            )
    elif wait is not None:  # github.com/Kenza-AI/sagify/issues/111
        _refuse("Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true")


def _check_resources(resources: Mapping[str, Any]) -> None:
    if resources.get("InstanceGroups"):
        if resources.get("InstanceType") or resources.get("InstanceCount"):
            _refuse("Invalid ResourceConfig. InstanceGroups excludes InstanceType and InstanceCount")
        return
    if not resources.get("InstanceType") or not resources.get("InstanceCount"):
        _refuse("Invalid ResourceConfig. InstanceType and InstanceCount must be present")


def _check_role(role_arn: str, account: str, training_job: str) -> None:
    """Require a role that trusts SageMaker on behalf of a training job, which the conditions of the trust compare.

    The text is that of github.com/awslabs/predictive-maintenance-using-machine-learning/issues/3.
    """
    trust = trust_of(name_of_arn(role_arn), account) if f":{account}:" in role_arn else {}
    if not allows_service(trust, "sts:AssumeRole", "sagemaker.amazonaws.com", training_job):
        _refuse(
            f"Could not assume role {role_arn}. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role."
        )


def _check_image(request: Mapping[str, Any], account: str) -> None:
    """Require an existing image.

    Texts: github.com/aws/sagemaker-python-sdk/issues/2063, .../amazon-sagemaker-examples/issues/1476 and 2534
    """
    uri = request["AlgorithmSpecification"].get("TrainingImage")
    if uri is None and request["AlgorithmSpecification"].get("AlgorithmName"):
        return  # a stub of an algorithm resource; localcloud has no such resources
    try:
        published.resolve(account, str(uri))
    except process_images.InvalidImageError:
        _refuse(
            "Invalid training image. Please provide a valid Amazon Elastic Container Registry path of the Docker "
            f"image to run. ({uri})"
        )
    except ImageNotFoundError as error:
        parts = process_images.ImageUri.parse(str(uri))
        message = (
            f"Cannot find the requested image: {uri}"
            if error.repository_exists
            else f"Cannot find repository: {parts.repository} in registry ID: {parts.account}"
        )
        _refuse(
            f"{message} Please check if your ECR repository exists and role {request['RoleArn']} has proper pull "
            f"permissions for SageMaker: {_PULL}"
        )


def _check_metrics(request: Mapping[str, Any]) -> None:
    """Check the regular expressions; a built-in algorithm and an algorithm resource define their own metrics.

    AWS documents that a built-in algorithm's metrics need no definition
    (https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-define-metrics.html); we found no page that
    allows other ones, so this is stricter. A job that runs a script in the image of xgboost may define metrics.
    """
    specification = request["AlgorithmSpecification"]
    definitions = specification.get("MetricDefinitions") or []
    script = "sagemaker_program" in (request.get("HyperParameters") or {})
    fixed = specification.get("AlgorithmName") or published.published(str(specification.get("TrainingImage", "")))
    if definitions and fixed and not script:
        _refuse("Invalid MetricDefinitions. The algorithm defines its own metrics")
    for definition in definitions:
        try:
            re.compile(definition["Regex"])
        except re.error as error:
            _refuse(f"Invalid MetricDefinitions. The regex of {definition['Name']} is not valid: {error}")


def _check_channels(channels: Sequence[Channel], role_arn: str, account: str, region: str) -> None:
    names = [channel.name for channel in channels]
    for name in names:
        if names.count(name) > 1:
            _refuse(f"Invalid InputDataConfig. Channel names must be unique, but '{name}' is used more than once")
    for channel in (data_channel for data_channel in channels if data_channel.uri):
        _check_pipe_only(channel)
        _check_data(channel, role_arn, account, region)


def _check_file_systems(request: Mapping[str, Any]) -> None:
    """Require a VPC and the mode File for channels on file systems.

    A training job mounts them through its VPC, and the other modes read "an Amazon S3 data source"
    (https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html).
    """
    mode = request["AlgorithmSpecification"].get("TrainingInputMode")
    for entry in request.get("InputDataConfig") or []:
        name, source = entry["ChannelName"], entry["DataSource"]
        if not source.get("FileSystemDataSource"):
            continue
        if source.get("S3DataSource"):
            _refuse(f"Invalid InputDataConfig. Channel '{name}' must have only one data source")
        if entry.get("InputMode", mode) != "File":
            _refuse(f"Invalid InputDataConfig. The input mode of channel '{name}' on a file system must be File")
        if not source["FileSystemDataSource"]["DirectoryPath"].startswith("/"):
            _refuse(f"Invalid InputDataConfig. The directory path of channel '{name}' must be absolute")
        if not request.get("VpcConfig"):
            _refuse(f"Invalid VpcConfig. It must be present, because channel '{name}' is on a file system")


def _check_pipe_only(channel: Channel) -> None:
    """Refuse members that the API reference allows in Pipe mode only (Channel, S3DataSource).

    AWS may accept an augmented manifest without AttributeNames and fail the training job
    (https://github.com/aws/amazon-sagemaker-examples/issues/1283).
    """
    augmented = channel.data_type == "AugmentedManifestFile"
    if augmented and not channel.piped:
        _refuse(
            f"Invalid InputDataConfig. Channel '{channel.name}' has AugmentedManifestFile, which requires Pipe mode"
        )
    if channel.record_wrapper != "None" and not channel.piped:
        _refuse(f"Invalid InputDataConfig. Channel '{channel.name}' has RecordWrapperType, which requires Pipe mode")
    if augmented != bool(channel.attributes):
        _refuse(
            f"Invalid InputDataConfig. Channel '{channel.name}' must have AttributeNames with AugmentedManifestFile, "
            "and only with it"
        )


def _check_data(channel: Channel, role_arn: str, account: str, region: str) -> None:
    """Require data in the job's Region (text: github.com/aws/amazon-sagemaker-examples/issues/2489)."""
    problem = _problem_with(S3Uri.parse(channel.uri), account, region)
    if problem is not None:
        bucket = S3Uri.parse(channel.uri).bucket
        _refuse(
            f'No S3 objects found under S3 URL "{channel.uri}" given in input data source. Please ensure that the '
            f"bucket exists in the selected region ({region}), that objects exist under that S3 prefix, and that the "
            f'role "{role_arn}" has "s3:ListBucket" permissions on bucket "{bucket}".{problem}'
        )


def _problem_with(uri: S3Uri, account: str, region: str) -> str | None:
    backend = s3_backends[account]["aws"]
    try:
        bucket = backend.get_bucket(uri.bucket)
    except MissingBucket:
        return " Error message from S3: The specified bucket does not exist"
    if bucket.region_name != region:
        return (
            f" Error message from S3: The bucket is in this region: {bucket.region_name}. "
            "Please use this region to retry the request"
        )
    newest = list(bucket.keys.items())
    exists = any(name.startswith(uri.key) and not isinstance(key, FakeDeleteMarker) for name, key in newest)
    return None if exists else ""
