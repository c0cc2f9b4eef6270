"""Job defaults: the `job` section of grid.yaml, with the defaults of manifest lines."""

from typing import Annotated, Literal

from pydantic import Field

from traingrid.grid.field_types import (
    MAX_RUNTIME_LIMIT,
    ChannelName,
    Count,
    Duration,
    HyperparameterKey,
    HyperparameterValue,
    InstanceType,
    MetricName,
    Text,
)
from traingrid.grid.part import GridPart
from traingrid.grid.queues import Launch, Share
from traingrid.job.job import Launcher, Streams

MPI_OPTIONS = "-mca btl_vader_single_copy_mechanism none -x NCCL_MIN_NRINGS=8 -x NCCL_LAUNCH_MODE=PARALLEL"
"""mpirun's default options, which grid.yaml and manifest lines can override. The first is described in
https://horovod.readthedocs.io/en/stable/mpi.html, the variables in NCCL's user guide. Horovod's own settings are
hyperparameters (`fusion_mb`, `hierarchical_allreduce`) and not set here, because a variable would override them."""


class JobDefaults(GridPart):
    """The settings of a job whose manifest line has only a Region and data."""

    image: Text = Field(examples=["resnet"])
    """An alias from `images`, or an image's URI."""
    instance_type: InstanceType = Field(examples=["ml.g5.48xlarge"])
    """SageMaker instance type of every host."""
    instance_count: Count = Field(default=1, examples=[1])
    """Number of hosts of a job."""
    volume_gb: Count = Field(default=100, examples=[100])
    """Size of each host's volume in GB, which stores the data in File mode."""
    max_runtime: Duration = Field(default=24 * 3600, le=MAX_RUNTIME_LIMIT, examples=["24h"])
    """Time after which SageMaker stops the job: 90m, 24h, 2d; at most 28d. In Python: seconds."""
    launcher: Launcher = Field(default="mpi", examples=["torchrun"])
    """How ranks are started: `mpi` or `torchrun`, or `none`, which runs the program once on each host."""
    processes_per_host: Count = Field(default=1, examples=[8])
    """Processes (ranks) that mpi or torchrun starts on each host: one for each GPU."""
    mpi_options: HyperparameterValue = Field(default=MPI_OPTIONS, examples=["-x HOROVOD_FUSION_THRESHOLD=16777216"])
    """Options passed to mpirun, as a hyperparameter."""
    hyperparameters: dict[HyperparameterKey, HyperparameterValue] = Field(
        default={},
        max_length=97,  # SageMaker accepts 100; three configure how ranks are started (backends/sagemaker/request.py)
        examples=[{"model": "resnet50"}],
    )
    """Hyperparameters of every job; a manifest line may override each. Numbers and booleans become text."""
    metrics: tuple[MetricName, ...] = Field(
        default=(
            *("epoch", "train_loss", "validation_loss", "validation_top1", "validation_top5", "learning_rate"),
            *("images_per_second", "ranks", "step_seconds", "input_seconds"),
        ),
        max_length=40,
        examples=[["train_loss", "validation_top1"]],
    )
    """Metrics that the training prints as name=value."""
    channels: tuple[ChannelName, ...] = Field(
        default=("train", "validation"), min_length=1, max_length=20, examples=[["train", "validation"]]
    )
    """Channels that the folder of a manifest line may have (docs/input.md); the first one is required."""
    input_mode: Literal["File", "FastFile", "Pipe"] = Field(default="File", examples=["FastFile"])
    """How data reaches a host: downloaded before the training, on demand, or as a stream through a pipe."""
    streams: Streams = Field(default="host", examples=["rank"])
    """In Pipe mode: `host` if the ranks of a host share a channel's stream, `rank` if each rank has a separate one."""
    shuffle_seed: Annotated[int, Field(ge=0, strict=True)] | None = Field(default=None, examples=[7])
    """In Pipe mode: seed with which SageMaker shuffles a channel's objects in every epoch; by default it does not."""
    retries: Annotated[int, Field(ge=0, le=30, strict=True)] = Field(default=2, examples=[2])
    """Maximum number of retries after failures that the training did not cause; up to 30 (RetryStrategy)."""
    launch: Launch = Field(default="direct", examples=["direct"])
    """How a training job is launched: `direct`, created at once, or `queued`, in the service queue of its Region."""
    share: Share | None = Field(default=None, examples=["research"])
    """Share that the jobs belong to, one of `shares`."""
