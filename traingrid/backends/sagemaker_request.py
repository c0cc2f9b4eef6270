"""From a job to a CreateTrainingJob request: pure functions, whose answer for a job that was submitted never changes.

The fingerprint of the training job that a former version of this program has made of it must stay the same: a field of
`Job` that asks for more leaves the request as it is by default.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from traingrid.channels import CODE_CHANNEL, channels_in_request
from traingrid.job import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.grid_region import Region
    from traingrid.grid_training import Training
    from traingrid.job import Job

# The hyperparameters by which AWS's own containers are told to start MPI; see `distribution` of the SageMaker Python
# SDK and https://github.com/aws/sagemaker-training-toolkit (environment.py and params.py). Ours reads the same ones.
MPI_ENABLED = "sagemaker_mpi_enabled"
MPI_PROCESSES_PER_HOST = "sagemaker_mpi_num_of_processes_per_host"
MPI_OPTIONS = "sagemaker_mpi_custom_mpi_options"
# And by which they are told what to run: an archive in S3, and a file in it.
SUBMIT_DIRECTORY = "sagemaker_submit_directory"
PROGRAM = "sagemaker_program"
TENSORBOARD = "TRAINGRID_TENSORBOARD"
"""The environment variable by which our training image is told the S3 prefix of its TensorBoard data."""


def training_job_request(name: str, job: Job, role_arn: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of CreateTrainingJob for a job.

    Args:
        name: The training job's name.
        job: What to train.
        role_arn: The execution role of the job's Region.
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
    if job.checkpoints:
        request["CheckpointConfig"] = {"S3Uri": job.checkpoints}
    environment = job.environment | ({TENSORBOARD: f"{job.output}tensorboard/"} if job.tensorboard else {})
    if environment:
        request["Environment"] = environment
    if job.retries:  # SageMaker repeats by itself what failed by an internal error of its own, and nothing else
        request["RetryStrategy"] = {"MaximumRetryAttempts": job.retries}
    return request


def confined(request: Mapping[str, Any], training: Training, region: Region, key: str = "") -> dict[str, Any]:
    """Return a request for CreateTrainingJob with what the grid, and no line, decides: network, isolation, encryption.

    Args:
        request: The arguments of CreateTrainingJob.
        training: What grid.yaml says of all training jobs.
        region: What it says of the job's Region.
        key: The KMS key, or its alias, that results are encrypted with; the bucket's own way if empty.
    """
    made = dict(request)
    if key:
        made["OutputDataConfig"] = {**request["OutputDataConfig"], "KmsKeyId": key}
    if region.subnets:
        made["VpcConfig"] = {"SecurityGroupIds": list(region.security_groups), "Subnets": list(region.subnets)}
    if training.encrypt_traffic:
        made["EnableInterContainerTrafficEncryption"] = True
    if training.network_isolation:
        made |= {"EnableNetworkIsolation": True, **_without_network(request)}
        if not made["Environment"]:
            del made["Environment"]
    return made


def _without_network(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is different where a container reaches nothing, S3 neither: SageMaker brings its code as a channel.

    The channel's name and the path in the hyperparameter are those of the SageMaker Python SDK's estimators
    (`CONTAINER_CODE_CHANNEL_SOURCEDIR_PATH`), so AWS's own containers understand them. TensorBoard data stays on the
    host: nothing could send it.
    """
    hyperparameters, inputs = dict(request["HyperParameters"]), list(request["InputDataConfig"])
    archive = hyperparameters.get(SUBMIT_DIRECTORY, "")
    if archive.startswith("s3://"):
        inputs.append(_channel(CODE_CHANNEL, Channel(uri=archive)))
        hyperparameters[SUBMIT_DIRECTORY] = f"/opt/ml/input/data/{CODE_CHANNEL}/{archive.rpartition('/')[2]}"
    environment = {name: value for name, value in request.get("Environment", {}).items() if name != TENSORBOARD}
    return {"HyperParameters": hyperparameters, "InputDataConfig": inputs, "Environment": environment}


def _algorithm(job: Job) -> dict[str, Any]:
    """Return what is run: an image of ours or AWS's, or an algorithm, which brings metrics of its own.

    A built-in algorithm reports its own, too
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
    """Return the hyperparameters that tell a container how to start; an algorithm accepts none but its own."""
    if job.is_algorithm:
        return {}
    program = {SUBMIT_DIRECTORY: job.source, PROGRAM: job.entry_point} if job.source else {}
    return {
        **program,
        MPI_ENABLED: "true",
        MPI_PROCESSES_PER_HOST: str(job.processes_per_host),
        MPI_OPTIONS: job.mpi_options,
    }


def _channel(name: str, channel: Channel) -> dict[str, Any]:
    request: dict[str, Any] = {
        "ChannelName": name,
        "InputMode": channel.input_mode,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "ManifestFile" if channel.manifest else "S3Prefix",
                "S3Uri": channel.uri,
                "S3DataDistributionType": channel.distribution,
            }
        },
    }
    if channel.content_type:
        request["ContentType"] = channel.content_type
    if channel.shuffle_seed is not None:
        request["ShuffleConfig"] = {"Seed": channel.shuffle_seed}
    return request


def fingerprint(training_job: Mapping[str, Any]) -> str:
    """Return a hash of what a training job is asked to do.

    The same for a CreateTrainingJob request and for the description of the job that it made, so that a job found under
    our name can be told from a stranger's.

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
            [channel["ChannelName"], channel.get("DataSource", {}).get("S3DataSource", {}).get("S3Uri")]
            for channel in training_job.get("InputDataConfig", [])
        ],
        "output": output.get("S3OutputPath"),
        "hosts": [training_job.get("ResourceConfig", {}).get(key) for key in ("InstanceType", "InstanceCount")],
        "role": training_job.get("RoleArn"),
        **_confinement(training_job),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _confinement(training_job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `confined` has added; nothing for a job without any, whose fingerprint is older than that."""
    network = training_job.get("VpcConfig") or {}
    found = {
        "subnets": sorted(network.get("Subnets", [])),
        "security_groups": sorted(network.get("SecurityGroupIds", [])),
        "isolated": training_job.get("EnableNetworkIsolation", False),
        "encrypted": training_job.get("EnableInterContainerTrafficEncryption", False),
    }
    return {name: value for name, value in found.items() if value}
