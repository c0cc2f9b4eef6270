"""SageMaker: the environment of a training container."""

import re

from conformance.aws import Aws
from conformance.claim import claim, documented
from conformance.resources.training import Training
from conformance.sources import model, page

_FILES = "https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html"
_EC2 = "https://github.com/awsdocs/amazon-ec2-user-guide/blob/e3707c431483ec0ffffcabebd36cf799ba682cd0/doc_source/"
_CONTRACT = "training_container/contract/training_job.py"


@claim(page(_FILES, '"num_round": "128"'), used_by=_CONTRACT, trainings=1)
def hyperparameters_are_a_file_of_texts(aws: Aws) -> None:
    """/opt/ml/input/config/hyperparameters.json contains the hyperparameters, all of them as strings."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert report["hyperparameters"]["lr"] == "0.1"


@claim(
    page(_FILES, "name of the network interface that is exposed to your container"),
    page(
        "https://github.com/aws/sagemaker-training-toolkit/blob/v5.1.0/src/sagemaker_training/environment.py",
        "current_instance_type: Type of EC2 instance",
    ),
    used_by=_CONTRACT,
    trainings=1,
)
def container_knows_its_instance_type(aws: Aws) -> None:
    """resourceconfig.json contains the host name algo-1, the instance type and the network interface."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    resources = report["resources"]
    assert (resources["current_host"], resources["hosts"]) == ("algo-1", ["algo-1"])
    assert resources["current_instance_type"] == "ml.m5.large"
    assert resources["network_interface_name"]


@claim(
    page(_FILES, "list of names of all containers on the container network"),
    used_by=f"{_CONTRACT} training_container/launcher/hosts.py",
    trainings=2,
)
def hosts_are_called_algo(aws: Aws) -> None:
    """The hosts of a cluster are algo-1, algo-2, ..., and resourceconfig.json lists all of them and the current one."""
    training = Training.of(aws)
    reports = training.report(training.cluster()["TrainingJobName"], hosts=2)
    assert [report["resources"]["current_host"] for report in reports] == ["algo-1", "algo-2"]
    assert all(sorted(report["resources"]["hosts"]) == ["algo-1", "algo-2"] for report in reports)


@claim(page(_FILES, "/opt/ml/input/config/inputdataconfig.json"), used_by=_CONTRACT, trainings=1)
def channels_are_in_inputdataconfig(aws: Aws) -> None:
    """inputdataconfig.json lists each channel with its TrainingInputMode and S3DistributionType."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert report["inputs"]["file"]["TrainingInputMode"] == "File"
    assert report["inputs"]["pipe"]["TrainingInputMode"] == "Pipe"
    assert report["inputs"]["file"]["S3DistributionType"] == "FullyReplicated"


@claim(
    page(_FILES, "creates a directory for each channel"),
    used_by="training_container/trainer/data/channels.py",
    trainings=1,
)
def file_mode_copies_the_data(aws: Aws) -> None:
    """In File mode, the objects under a prefix are files in /opt/ml/input/data/<channel>, without the prefix."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert report["files"]["file"] == ["a", "b/c"]


@claim(
    model("sagemaker", "S3DataSource", "SageMaker uses all objects that match the specified key name prefix"),
    used_by="traingrid/job/data_layout.py",
    trainings=1,
)
def prefix_is_the_beginning_of_keys(aws: Aws) -> None:
    """A channel with the S3 prefix flat/train- contains the files whose names begin with train-, and no others."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert [name.endswith("train-0") for name in report["files"]["prefix"]] == [True]


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html",
        "Fast file mode provides file system access to an Amazon S3 data",
    ),
    used_by="training_container/trainer/data/channels.py",
    trainings=1,
)
def fast_file_mode_shows_files(aws: Aws) -> None:
    """In FastFile mode, the objects under a prefix are files in /opt/ml/input/data/<channel>, too."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert report["files"]["fast"] == ["a", "b/c"]


@claim(
    page(_FILES, "you need to read from the following pipes"),
    used_by="training_container/trainer/data/channels.py",
    trainings=1,
)
def pipe_mode_is_a_fifo_for_each_epoch(aws: Aws) -> None:
    """In Pipe mode, /opt/ml/input/data/<channel>_0 is a FIFO that contains the objects of the first epoch."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert report["is_fifo"]
    assert sorted(report["streamed"]) == ["A", "C"]


@claim(
    model("sagemaker", "S3DataSource", "replicate a subset of data on each ML compute instance"),
    used_by="training_container/trainer/data/channels.py",
    trainings=2,
)
def shards_are_by_object(aws: Aws) -> None:
    """ShardedByS3Key assigns each object to exactly one host."""
    training = Training.of(aws)
    reports = training.report(training.cluster()["TrainingJobName"], hosts=2)
    assert sorted(name for report in reports for name in report["files"]["shard"]) == ["a", "b/c"]
    assert all(len(report["files"]["shard"]) == 1 for report in reports)


@claim(
    model("sagemaker", "S3DataSource", "SageMaker appends the suffix elements to the prefix"),
    used_by="traingrid/job/rank_manifests.py",
    trainings=2,
)
def manifest_file_names_objects(aws: Aws) -> None:
    """A ManifestFile channel contains the objects that its file lists: a prefix, followed by suffixes."""
    training = Training.of(aws)
    reports = training.report(training.cluster()["TrainingJobName"], hosts=2)
    assert all([name.endswith("c") for name in report["files"]["listed"]] == [True] for report in reports)


@claim(page(_FILES, "sets the following environment variables in your container"), used_by=_CONTRACT, trainings=1)
def container_has_the_variables(aws: Aws) -> None:
    """A container has the variables TRAINING_JOB_NAME, TRAINING_JOB_ARN and those of the request."""
    training = Training.of(aws)
    job = training.specimen()
    (report,) = training.report(job["TrainingJobName"])
    variables = report["environment"]
    assert variables["TRAINING_JOB_NAME"] == job["TrainingJobName"]
    assert variables["TRAINING_JOB_ARN"] == job["TrainingJobArn"]
    assert variables["MINE"] == "1"


@claim(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html",
        "[training-job-name]/algo-[instance-number-in-cluster]-[epoch_timestamp]",
    ),
    used_by="traingrid/backends/sagemaker/log.py",
    trainings=2,
)
def log_streams_are_named_after_job_and_host(aws: Aws) -> None:
    """A host logs to the stream <job>/algo-<n>-<number> in the log group /aws/sagemaker/TrainingJobs."""
    training = Training.of(aws)
    name = training.cluster()["TrainingJobName"]
    training.report(name, hosts=2)
    streams = training.streams(name)
    assert len(streams) == 2
    for number, stream in enumerate(streams, 1):
        assert re.fullmatch(rf"{name}/algo-{number}-\d+", stream), stream


@claim(
    page(f"{_EC2}general-purpose-instances.md", "m5.large 2 8.00"),
    used_by="training_container/launcher/rank_environment.py",
    not_modelled="instance types and their speed: every host has this machine's cores",
    trainings=1,
)
def instance_type_decides_the_cores(aws: Aws) -> None:
    """A container on ml.m5.large sees two CPUs and 8 GiB of memory."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert report["cpus"] == 2, report["cpus"]
    assert 7 < report["memory_gb"] < 9, report["memory_gb"]


@claim(
    model("sagemaker", "ResourceConfig", "The size of the ML storage volume that you want to provision"),
    used_by="traingrid/job/job.py",
    not_modelled="disk sizes: every host has this machine's disk",
    trainings=1,
)
def volume_has_the_size_that_was_asked_for(aws: Aws) -> None:
    """On an instance type without local storage, /opt/ml is a disk of about VolumeSizeInGB."""
    training = Training.of(aws)
    (report,) = training.report(training.specimen()["TrainingJobName"])
    assert report["disk_gb"] < 5, report["disk_gb"]


@documented(
    page(
        "https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html",
        "limited to the peers of each training container",
    ),
    used_by="traingrid/backends/sagemaker/request.py",
    why="isolated hosts can neither be queried nor log their connection attempts",
)
def isolated_container_reaches_its_peers_only(aws: Aws) -> None:
    """With EnableNetworkIsolation, a container reaches the other hosts of its cluster, and no other address."""


@documented(
    page(
        "https://github.com/NVIDIA/nvidia-container-runtime",
        "controls which GPUs will be made accessible inside the container",
    ),
    used_by="training_container/Dockerfile training_container/trainer/cluster.py",
    why="the suite uses no GPU instances, which exceed its budget",
)
def gpus_are_visible_with_nvidia_visible_devices(aws: Aws) -> None:
    """A container sees the host's GPUs if its image sets NVIDIA_VISIBLE_DEVICES and NVIDIA_DRIVER_CAPABILITIES."""
