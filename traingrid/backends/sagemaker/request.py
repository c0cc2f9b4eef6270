"""CreateTrainingJob requests: pure functions that build them from jobs, and their fingerprints.

The result for a submitted job must never change, because the fingerprint of a training job that a previous version
created must stay the same. The default of every new field of `Job` must therefore leave the request unchanged.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from traingrid.backends.sagemaker.metric_variables import PREFIX, with_metric_variables
from traingrid.grid.region import Region
from traingrid.grid.training import Training
from traingrid.job.channels import CODE_CHANNEL, channels_in_request
from traingrid.job.job import Channel, Job
from traingrid.job.launchers import launcher_hyperparameters
from traingrid.names import account_of_arn

# The hyperparameters with the program to run: an archive in S3, and a file in it.
SUBMIT_DIRECTORY = "sagemaker_submit_directory"
PROGRAM = "sagemaker_program"
TENSORBOARD = "TRAINGRID_TENSORBOARD"
"""The environment variable with the S3 prefix to which our training image uploads TensorBoard data."""
PROFILE = "TRAINGRID_PROFILE"
"""The environment variable with the steps of which our training image writes a profile."""


def training_job_request(name: str, job: Job, role_arn: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of CreateTrainingJob for a job.

    Args:
        tags: Tags in addition to the job's own.
    """
    request: dict[str, Any] = {
        "TrainingJobName": name,
        "AlgorithmSpecification": _algorithm(job),
        "HyperParameters": {**job.hyperparameters, **_launch(job)},
        "InputDataConfig": [_channel(channel, source) for channel, source in channels_in_request(job, name).items()],
        "OutputDataConfig": {"S3OutputPath": job.output},
        "ResourceConfig": {
            "InstanceType": job.instance_type,
            "InstanceCount": job.instance_count,
            "VolumeSizeInGB": job.volume_gb,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": job.max_runtime_seconds},
        "RoleArn": role_arn,
        "Tags": [{"Key": key, "Value": value} for key, value in sorted({**job.tags, **tags}.items())],
    }
    if job.spot:
        request["EnableManagedSpotTraining"] = True
        request["StoppingCondition"]["MaxWaitTimeInSeconds"] = job.max_wait_seconds
    if job.training_plan:
        request["ResourceConfig"]["TrainingPlanArn"] = job.training_plan
    if job.keep_alive_seconds:
        request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = job.keep_alive_seconds
    if job.checkpoints:
        request["CheckpointConfig"] = {"S3Uri": job.checkpoints}
    environment = dict(job.environment)
    if job.tensorboard:
        environment[TENSORBOARD] = f"{job.output}tensorboard/"
    if job.profile:
        environment[PROFILE] = job.profile
    environment = with_metric_variables(environment, job, name)
    if environment:
        request["Environment"] = environment
    if job.retries:  # SageMaker itself retries after its internal errors, and after no other failure
        request["RetryStrategy"] = {"MaximumRetryAttempts": job.retries}
    return request


def confined(request: Mapping[str, Any], training: Training, region: Region, key: str = "") -> dict[str, Any]:
    """Return a CreateTrainingJob request with the grid's network, isolation and encryption, which no line can change.

    Args:
        training: The `training` section of grid.yaml.
        region: The section of the job's Region in grid.yaml.
        key: The KMS key, or its alias, that encrypts results. If empty, SageMaker encrypts them with the account's
            default key for S3 (OutputDataConfig in botocore's service model), not with the bucket's default.
    """
    confined_request = dict(request)
    if key:
        confined_request["OutputDataConfig"] = {**request["OutputDataConfig"], "KmsKeyId": key}
    if region.subnets:
        confined_request["VpcConfig"] = {
            "SecurityGroupIds": list(region.security_groups),
            "Subnets": list(region.subnets),
        }
    if training.encrypt_traffic:
        confined_request["EnableInterContainerTrafficEncryption"] = True
    if training.remote_debug and "MetricDefinitions" in request["AlgorithmSpecification"]:
        # AWS does not support it for algorithms, which are the requests without MetricDefinitions (`_algorithm`).
        confined_request["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    if training.network_isolation or _is_of_marketplace(request):
        confined_request |= {"EnableNetworkIsolation": True, **_isolation_changes(request)}
        if not confined_request["Environment"]:
            del confined_request["Environment"]
    return confined_request


def _is_of_marketplace(request: Mapping[str, Any]) -> bool:
    """Return True for an algorithm of another account, which can only be one of AWS Marketplace.

    SageMaker requires network isolation for it
    (https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html#mkt-algo-model-internet-free-isolation).
    """
    arn = str(request["AlgorithmSpecification"].get("AlgorithmName", ""))
    role = str(request["RoleArn"])
    return arn.startswith("arn:") and account_of_arn(arn) != account_of_arn(role)


def _isolation_changes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes to a request for a container without network: SageMaker provides its code as a channel.

    Such a container cannot access S3 either. The channel's name and the path in the hyperparameter are those of the
    SageMaker Python SDK's estimators (`CONTAINER_CODE_CHANNEL_SOURCEDIR_PATH`), so AWS's own containers accept them.
    TensorBoard data remains on the host, and there is no metric history, because the container cannot upload them.
    """
    hyperparameters, inputs = dict(request["HyperParameters"]), list(request["InputDataConfig"])
    archive = hyperparameters.get(SUBMIT_DIRECTORY, "")
    if archive.startswith("s3://"):
        inputs.append(_channel(CODE_CHANNEL, Channel(uri=archive)))
        hyperparameters[SUBMIT_DIRECTORY] = f"/opt/ml/input/data/{CODE_CHANNEL}/{archive.rpartition('/')[2]}"
    environment = {
        name: value
        for name, value in request.get("Environment", {}).items()
        if name != TENSORBOARD and not name.startswith(PREFIX)
    }
    return {"HyperParameters": hyperparameters, "InputDataConfig": inputs, "Environment": environment}


def _algorithm(job: Job) -> dict[str, Any]:
    """Return the AlgorithmSpecification: a training image with its metrics, or an algorithm, which defines its own.

    A built-in algorithm also defines its own metrics
    (https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-define-metrics.html).
    """
    if job.algorithm:
        return {"AlgorithmName": job.algorithm, "TrainingInputMode": "File"}
    if job.built_in:
        return {"TrainingImage": job.image, "TrainingInputMode": "File"}
    return {
        "TrainingImage": job.image,
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": metric, "Regex": regex} for metric, regex in sorted(job.metrics.items())],
    }


def _launch(job: Job) -> dict[str, str]:
    """Return the hyperparameters that configure a container's start; an algorithm accepts only its documented ones."""
    if job.is_algorithm:
        return {}
    program = {SUBMIT_DIRECTORY: job.source, PROGRAM: job.entry_point} if job.source else {}
    return {**program, **launcher_hyperparameters(job)}


def _channel(name: str, channel: Channel) -> dict[str, Any]:
    request: dict[str, Any] = {
        "ChannelName": name,
        "InputMode": channel.input_mode,
        "DataSource": _file_system(channel) if channel.file_system else _s3(channel),
    }
    if channel.content_type:
        request["ContentType"] = channel.content_type
    if channel.shuffle_seed is not None:
        request["ShuffleConfig"] = {"Seed": channel.shuffle_seed}
    if channel.record_wrapper != "None":
        request["RecordWrapperType"] = channel.record_wrapper
    return request


def _s3(channel: Channel) -> dict[str, Any]:
    source: dict[str, Any] = {
        "S3DataType": "ManifestFile" if channel.manifest else "S3Prefix",
        "S3Uri": channel.uri,
        "S3DataDistributionType": channel.distribution,
    }
    if channel.attributes:
        source |= {"S3DataType": "AugmentedManifestFile", "AttributeNames": list(channel.attributes)}
    return {"S3DataSource": source}


def _file_system(channel: Channel) -> dict[str, Any]:
    """Return the source of a channel on a file system, which is mounted read-only because other jobs use it, too."""
    return {
        "FileSystemDataSource": {
            "FileSystemId": channel.file_system,
            "FileSystemType": channel.type,
            "DirectoryPath": channel.path,
            "FileSystemAccessMode": "ro",
        }
    }


def fingerprint(training_job: Mapping[str, Any]) -> str:
    """Return a hash of the parameters that determine a training job's work.

    A CreateTrainingJob request and the description of the training job that it created have the same fingerprint. It
    distinguishes our training job from another one with the same name.

    Args:
        training_job: A CreateTrainingJob request or a DescribeTrainingJob reply.
    """
    algorithm = training_job.get("AlgorithmSpecification", {})
    output = training_job.get("OutputDataConfig", {})
    identity = {
        "image": algorithm.get("TrainingImage"),
        "algorithm": algorithm.get("AlgorithmName"),
        "environment": training_job.get("Environment", {}),
        "hyperparameters": training_job.get("HyperParameters", {}),
        "inputs": [
            [channel["ChannelName"], _data_identity(channel.get("DataSource", {}))]
            for channel in training_job.get("InputDataConfig", [])
        ],
        "output": output.get("S3OutputPath"),
        "hosts": [training_job.get("ResourceConfig", {}).get(key) for key in ("InstanceType", "InstanceCount")],
        "role": training_job.get("RoleArn"),
        **_confinement(training_job),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _data_identity(source: Mapping[str, Any]) -> str | list[str] | None:
    """Return what identifies a channel's data: its URI, or its file system and folder."""
    if file_system := source.get("FileSystemDataSource"):
        return [file_system.get(key, "") for key in ("FileSystemId", "DirectoryPath", "FileSystemAccessMode")]
    uri: str | None = source.get("S3DataSource", {}).get("S3Uri")
    return uri


def _confinement(training_job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that `confined` added.

    It is empty without such settings, because fingerprints recorded before `confined` existed must stay valid.
    """
    network = training_job.get("VpcConfig") or {}
    fields = {
        "subnets": sorted(network.get("Subnets", [])),
        "security_groups": sorted(network.get("SecurityGroupIds", [])),
        "isolated": training_job.get("EnableNetworkIsolation", False),
        "encrypted": training_job.get("EnableInterContainerTrafficEncryption", False),
    }
    return {name: value for name, value in fields.items() if value}
