"""Job: one line of a manifest with all defaults applied, ready to be launched."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from traingrid.job.backend_traits import DEFAULT_BACKEND, BackendName
from traingrid.job.initial_model import InitialModel
from traingrid.job.metrics import Metrics

Streams = Literal["host", "rank"]
"""In Pipe mode, the ranks of a host share a channel's stream ("host"), or each rank has a separate one ("rank")."""

Launcher = Literal["mpi", "torchrun", "none"]
"""The program that starts the ranks: mpirun, torchrun on each host, or none, which runs the program once per host."""

ObjectKind = Literal["job", "mpijob"]
"""In Kubernetes, a training job is an Indexed Job (`batch/v1`) or an MPIJob (`kubeflow.org/v2beta1`)."""


class Channel(BaseModel):
    """One input channel of a training job.

    `uri` is an S3 prefix in the job's own Region. Where `manifest` is true, it is an object that lists keys
    (SageMaker's ManifestFile); with `attributes`, an augmented manifest (AugmentedManifestFile), of which these
    attributes are streamed. The other fields are SageMaker's DataSource, InputMode, ShuffleConfig, ContentType and
    RecordWrapperType. A channel on a file system of the Region has no URI, but the file system's id, its type and a
    folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str = ""
    file_system: str = ""
    type: Literal["", "EFS", "FSxLustre"] = ""
    path: str = ""
    input_mode: Literal["File", "FastFile", "Pipe"] = "File"
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = "FullyReplicated"
    shuffle_seed: int | None = None
    manifest: bool = False
    content_type: str = ""
    attributes: tuple[str, ...] = ()
    record_wrapper: Literal["None", "RecordIO"] = "None"

    @property
    def lists_objects(self) -> bool:
        """True if `uri` is an object that lists the channel's objects, which may be anywhere."""
        return self.manifest or bool(self.attributes)

    @property
    def location(self) -> str:
        """The place of the data: the URI, or file system and folder in the form of an NFS mount, `fs-…:/folder`."""
        return f"{self.file_system}:{self.path}" if self.file_system else self.uri


Inputs = dict[str, Channel]


class JobReplica(BaseModel):
    """The Region-specific fields of a job in another Region, because SageMaker uses only resources of its Region."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: Inputs
    output: str
    image: str = ""
    algorithm: str = ""
    checkpoints: str = ""
    training_plan: str = ""
    backends: tuple[BackendName, ...] = (DEFAULT_BACKEND,)


class Job(BaseModel):
    """One line of a submission, with everything that a child needs to launch it except the deployment's roles."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int = Field(ge=0, description="Index of the job in its submission, from 0, across all arrays")
    line: int = Field(ge=1, description="Line number in the manifest, as a text editor shows it")
    name: str
    region: str
    inputs: Inputs
    streams: Streams = Field(
        default="host", description="Streams per host or per rank in Pipe mode; ignored if no channel uses it"
    )
    image: str = Field(default="", description="Image URI in the job's Region; empty if `algorithm` is set")
    algorithm: str = Field(default="", description="Name or ARN of a SageMaker algorithm resource, instead of an image")
    built_in: bool = Field(default=False, description="True if the image is one of SageMaker's built-in algorithms")
    instance_type: str
    instance_count: int = Field(ge=1)
    volume_gb: int = Field(ge=1)
    max_runtime_seconds: int = Field(ge=1)
    max_wait_seconds: int = Field(default=0, ge=0, description="With spot: maximum time of waiting and running")
    spot: bool = False
    launcher: Launcher = Field(default="mpi", description="The program that starts the ranks")
    keep_alive_seconds: int = Field(default=0, ge=0, description="How long the instances are kept for the next job")
    processes_per_host: int = Field(ge=1)
    mpi_options: str
    source: str = Field(default="", description="S3 URI of a sourcedir.tar.gz that the image unpacks and runs")
    entry_point: str = Field(default="", description="The file of `source` to run")
    hyperparameters: dict[str, str] = {}
    metrics: Metrics = Field(default={}, description="Regular expression of each metric, by name")
    environment: dict[str, str] = {}
    tags: dict[str, str] = {}
    output: str = Field(description="S3 prefix of the job's results")
    tensorboard: bool = Field(default=False, description="True if the training uploads TensorBoard data")
    profile: str = Field(default="", description="Steps of which the training image writes a profile, FIRST-LAST")
    metric_history: bool = Field(
        default=False, description="True if the training writes all values of its metrics to S3"
    )
    checkpoints: str = Field(default="", description="S3 prefix of /opt/ml/checkpoints; empty to keep no checkpoints")
    training_plan: str = Field(default="", description="ARN of the SageMaker training plan in the job's Region")
    backends: tuple[BackendName, ...] = Field(
        default=(DEFAULT_BACKEND,), min_length=1, description="Backends that run the job in its Region, in order"
    )
    capacity_wait_seconds: int = Field(
        default=0,
        ge=0,
        description="Time without capacity after which the next backend or Region is tried; 0: unlimited",
    )
    eks_kind: Literal["", ObjectKind] = Field(
        default="", description="Kind of object in Kubernetes; empty for that of the Region"
    )
    eks_queue: str = Field(default="", description="LocalQueue of Kueue; empty for that of the Region")
    priority: int = Field(default=0, description="Jobs with a higher priority get a smaller index and start first")
    retries: int = Field(
        default=0, ge=0, description="Maximum number of retries after failures that the training did not cause"
    )
    launch: Literal["direct", "queued"] = Field(
        default="direct", description="`direct`: the child creates the training job; `queued`: the service queue does"
    )
    share: str = Field(default="", description="Share that the job belongs to, if queues are shared")
    residency: tuple[str, ...] = Field(default=(), description="Geographies and Regions in which the data may be")
    finish_by: str = Field(default="", description="Time in UTC by which the job should have ended")
    estimated_runtime_seconds: int = Field(default=0, ge=0, description="Expected duration; 0 if it is not known")
    estimated_dollars: float | None = Field(default=None, description="Cost of the job that its plan expects")
    budget_dollars: float | None = Field(default=None, description="Budget of the whole submission")
    dollars_per_hour: float | None = Field(default=None, description="Price of an instance-hour on demand")
    spot_dollars_per_hour: float | None = Field(
        default=None, description="Expected price of an hour of a spot instance"
    )
    replicas: dict[str, JobReplica] = Field(default={}, description="Other Regions with the same data, in order")

    by_layout: bool = Field(
        default=False, description="True if the job has those of its `inputs` that its folder has, as the child finds"
    )
    copy_from: str = Field(default="", description="S3 URI of a folder in another Region that is copied first")
    copy_to: str = Field(default="", description="With copy_from: S3 URI of the folder that it is copied to")
    init_from: InitialModel | None = Field(
        default=None, description="The model of an earlier job, with whose weights the training begins"
    )

    @property
    def ranks(self) -> int:
        """The world size: hosts x processes per host. An algorithm starts its own processes and counts one per host."""
        return self.instance_count * (1 if self.is_algorithm else self.processes_per_host)

    @property
    def is_algorithm(self) -> bool:
        """True for a SageMaker algorithm, which defines its own hyperparameters and metrics."""
        return bool(self.algorithm) or self.built_in

    @property
    def epochs(self) -> int:
        """The hyperparameter `epochs`, which trainers commonly have; 0 if it is missing or not a natural number."""
        return self.natural_hyperparameter("epochs")

    @property
    def epochs_at_risk(self) -> int:
        """The epochs that an interruption can undo: those between two checkpoints.

        0 if they are not known, because the training has no epochs, does not report them, or keeps no checkpoints. The
        built-in trainer reports completed epochs; a script may report the one that it begins.
        """
        if not (self.epochs and self.checkpoints and "epoch" in self.metrics):
            return 0
        return min(max(self.natural_hyperparameter("checkpoint_every"), 1), self.epochs) + bool(self.source)

    def natural_hyperparameter(self, name: str) -> int:
        """Return the value of a hyperparameter; 0 if it is missing or not a natural number."""
        match = re.fullmatch(r"([0-9]{1,9})(\.0*)?", self.hyperparameters.get(name, ""))
        return int(match[1]) if match else 0

    @property
    def regions(self) -> tuple[str, ...]:
        """All Regions with the job's data, in the order in which they are tried."""
        return (self.region, *self.replicas)


def job_on_demand(job: Job) -> Job:
    """Return the same job with on-demand instances in place of spot instances."""
    return job.model_copy(update={"spot": False, "max_wait_seconds": 0})


def job_in_region(job: Job, region: str) -> Job:
    """Return the same job for another Region that has a replica of its data.

    Inputs, image, algorithm, checkpoints and output become those of the new Region. The previous Region becomes the
    first replica, so that the job can move back. All other fields stay the same.

    Raises:
        KeyError: The job has no replica in that Region.
    """
    if region == job.region:
        return job
    target = job.replicas[region]
    current = JobReplica.model_construct(**{name: getattr(job, name) for name in JobReplica.model_fields})
    other_replicas = {name: replica for name, replica in job.replicas.items() if name != region}
    moved = {name: getattr(target, name) for name in JobReplica.model_fields}
    return job.model_copy(update={**moved, "region": region, "replicas": {job.region: current, **other_replicas}})
