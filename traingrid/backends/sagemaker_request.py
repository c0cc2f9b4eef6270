"""From a job to a CreateTrainingJob request: pure functions."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.job import Channel, Job

# The hyperparameters by which AWS's own containers are told to start MPI; see `distribution` of the SageMaker Python
# SDK and https://github.com/aws/sagemaker-training-toolkit (environment.py and params.py). Ours reads the same ones.
MPI_ENABLED = "sagemaker_mpi_enabled"
MPI_PROCESSES_PER_HOST = "sagemaker_mpi_num_of_processes_per_host"
MPI_OPTIONS = "sagemaker_mpi_custom_mpi_options"


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
        "AlgorithmSpecification": {
            "TrainingImage": job.image,
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": metric, "Regex": regex} for metric, regex in sorted(job.metrics.items())],
        },
        "HyperParameters": {
            **job.hyperparameters,
            MPI_ENABLED: "true",
            MPI_PROCESSES_PER_HOST: str(job.processes_per_host),
            MPI_OPTIONS: job.mpi_options,
        },
        "InputDataConfig": [_channel(channel, source) for channel, source in job.inputs.items()],
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
    if job.environment:
        request["Environment"] = dict(job.environment)
    return request


def _channel(name: str, channel: Channel) -> dict[str, Any]:
    return {
        "ChannelName": name,
        "InputMode": channel.input_mode,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": channel.uri,
                "S3DataDistributionType": channel.distribution,
            }
        },
    }


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
        "hyperparameters": training_job.get("HyperParameters", {}),
        "inputs": [
            [channel["ChannelName"], channel.get("DataSource", {}).get("S3DataSource", {}).get("S3Uri")]
            for channel in training_job.get("InputDataConfig", [])
        ],
        "output": output.get("S3OutputPath"),
        "hosts": [training_job.get("ResourceConfig", {}).get(key) for key in ("InstanceType", "InstanceCount")],
        "role": training_job.get("RoleArn"),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
