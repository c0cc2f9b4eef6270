"""The grid: a home Region, training Regions and the defaults of their jobs, as grid.yaml describes them.

`load_grid` reads and checks the file and says everything that is wrong with it at once. Lambda functions and the
orchestrator get the same grid from their environment: `Grid.to_environment`, `Grid.from_environment`.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from traingrid import names
from traingrid.errors import UsageError
from traingrid.fields import (
    MAX_RUNTIME_LIMIT,
    AlgorithmName,
    BucketName,
    ChannelName,
    Count,
    Duration,
    HyperparameterKey,
    HyperparameterValue,
    ImageRegistry,
    ImageTag,
    InstanceType,
    MetricName,
    RegionName,
    Repository,
    Text,
    broken_rule,
)
from traingrid.job import Streams

NAME_LIMIT = 24
"""Longest name of a grid. An S3 bucket's name has at most 63 characters
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html), and `names.manifest_bucket` adds
"-manifests-", 12 digits of account, a hyphen and at most 14 characters of Region."""

MPI_OPTIONS = "-mca btl_vader_single_copy_mechanism none -x NCCL_MIN_NRINGS=8 -x NCCL_LAUNCH_MODE=PARALLEL"
"""mpirun's options unless grid.yaml or the manifest line says otherwise. The first is described in
https://horovod.readthedocs.io/en/stable/mpi.html, the variables in NCCL's user guide. What Horovod itself may be told
is left to hyperparameters (`fusion_mb`, `hierarchical_allreduce`): a variable set here would go before them."""

FARGATE_MEMORY = {
    0.25: (512, 1024, 2048),
    0.5: tuple(range(1024, 4097, 1024)),
    1.0: tuple(range(2048, 8193, 1024)),
    2.0: tuple(range(4096, 16385, 1024)),
    4.0: tuple(range(8192, 30721, 1024)),
}
"""MiB of memory that Fargate offers by number of vCPUs
(https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html)."""

LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3653)
"""The retention periods that CloudWatch Logs offers (PutRetentionPolicy in its API reference), up to ten years."""


class GridError(UsageError):
    """A grid.yaml that cannot be used; `problems` are sentences with file, line, key, value, rule and next step."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_grid(path: str | Path) -> "Grid":
    """Return the grid that a YAML file describes.

    Raises GridError with everything that is wrong: a file that cannot be read, syntax, repeated and unknown keys,
    values that break a rule, Regions without SageMaker.
    """
    # The orchestrator and Lambda get their grid from the environment, and so need neither PyYAML nor these modules.
    from traingrid.grid_file import check_grid_file  # noqa: PLC0415

    return check_grid_file(Path(path))


def _grid_name(name: str) -> str:
    if name == "default":
        raise broken_rule('the event bus is called like the grid, and every account has one called "default" already')
    if name.startswith(("xn--", "sthree-", "amzn-s3-demo-", "aws-")):
        raise broken_rule("AWS keeps names with this beginning for itself")
    return name


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, use_attribute_docstrings=True)


class Region(_Model):
    """A training Region."""

    data_buckets: tuple[BucketName, ...] = Field(default=(), examples=[["my-campaigns-us-west-2"]])
    """Buckets in this Region, beside the grid's own, that its training jobs may read."""


class Image(_Model):
    """A training image: a repository and a tag in the grid's own ECR, the same in every Region, or any image's URI."""

    repository: Repository | None = Field(default=None, examples=["training"])
    """Name of a repository that every region stack creates (its full name begins with the grid's)."""
    tag: ImageTag | None = Field(default=None, examples=["1"])
    """Tag of the image in that repository; quote it, or YAML reads a number."""
    uri: Text | None = Field(
        default=None, examples=["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu"]
    )
    """URI of an image; "{region}" stands for the job's Region, whose registry SageMaker pulls from."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.uri is None) == (self.repository is None) or (self.tag is None) != (self.repository is None):
            raise broken_rule("an image is either a repository with a tag or a uri")
        if self.repository == "orchestrator":
            raise broken_rule("the control stack has a repository of this name already", at="repository")
        return self


class Orchestrator(_Model):
    """The Batch children that start and watch training jobs, one each."""

    vcpu: float = Field(default=0.25, strict=True, examples=[0.25])
    """vCPUs of one child: 0.25, 0.5, 1, 2 or 4."""
    memory_mib: Count = Field(default=512, examples=[512])
    """Memory of one child in MiB; Fargate offers few sizes for each number of vCPUs."""
    max_vcpus: Count = Field(default=64, examples=[64])
    """vCPUs of all children that run at once; with 0.25 each, 64 vCPUs watch 256 training jobs."""
    watch: Literal["until_ended", "until_started"] = Field(default="until_ended", examples=["until_ended"])
    """How long a child stays: until its training job has ended, with its log, or only until it runs."""
    image_tag: ImageTag = Field(default="1", examples=["1"])
    """Tag of the orchestrator's image in its ECR repository; quote it, or YAML reads a number."""

    @model_validator(mode="after")
    def _fargate_size(self) -> Self:
        if self.vcpu not in FARGATE_MEMORY:
            raise broken_rule(f"Fargate offers {', '.join(f'{vcpu:g}' for vcpu in FARGATE_MEMORY)} vCPUs", at="vcpu")
        offered = FARGATE_MEMORY[self.vcpu]
        if self.memory_mib not in offered:
            rule = f"with {self.vcpu:g} vCPU Fargate offers {', '.join(map(str, offered))} MiB"
            raise broken_rule(rule, at="memory_mib")
        return self


class Limits(_Model):
    """The most that one submission may ask for; a manifest beyond it is rejected as a whole."""

    jobs: Count = Field(default=50_000, le=50_000, examples=[1000])
    """Most jobs of a submission, and so lines of a manifest; at most 50,000, in arrays of 10,000."""
    instances: Count | None = Field(default=None, examples=[64])
    """Most hosts of all jobs of a submission together; no limit unless it is set."""
    accelerators: Count | None = Field(default=None, examples=[256])
    """Most GPUs or other accelerators of all jobs of a submission together; no limit unless it is set."""


class JobDefaults(_Model):
    """What a manifest line that says only Region and data is trained with."""

    image: Text = Field(examples=["resnet"])
    """An alias from `images`, or an image's URI."""
    instance_type: InstanceType = Field(examples=["ml.g5.48xlarge"])
    """SageMaker instance type of every host."""
    instance_count: Count = Field(default=1, examples=[1])
    """Number of hosts of a job."""
    volume_gb: Count = Field(default=100, examples=[100])
    """Size of each host's volume in GB: it holds the data of File mode."""
    max_runtime: Duration = Field(default=24 * 3600, le=MAX_RUNTIME_LIMIT, examples=["24h"])
    """After this time SageMaker stops the job: 90m, 24h, 2d; at most 28d. In Python: seconds."""
    processes_per_host: Count = Field(default=1, examples=[8])
    """Horovod processes (ranks) of each host: one for each GPU."""
    mpi_options: HyperparameterValue = Field(default=MPI_OPTIONS, examples=["-x HOROVOD_FUSION_THRESHOLD=16777216"])
    """Options passed to mpirun, as a hyperparameter."""
    hyperparameters: dict[HyperparameterKey, HyperparameterValue] = Field(
        default={},
        max_length=97,  # SageMaker takes 100, and three say how ranks are started (sagemaker_request.py)
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
    """Folders below a manifest line's S3 URI, each a channel of the job."""
    input_mode: Literal["File", "FastFile", "Pipe"] = Field(default="File", examples=["FastFile"])
    """How data comes to a host: downloaded before the training, on demand, or as a stream through a pipe."""
    streams: Streams = Field(default="host", examples=["rank"])
    """In Pipe mode: whether the ranks of a host share a channel's stream, or each rank has one of its own."""
    shuffle_seed: Annotated[int, Field(ge=0, strict=True)] | None = Field(default=None, examples=[7])
    """In Pipe mode: seed by which SageMaker shuffles a channel's objects anew in every epoch; not unless it is set."""
    retries: Annotated[int, Field(ge=0, le=30, strict=True)] = Field(default=2, examples=[2])
    """How often a training is repeated that failed by no fault of its own; at most 30 (SageMaker's RetryStrategy)."""


class Grid(_Model):
    """A home Region, its training Regions, and what jobs are made of unless their manifest line says otherwise."""

    name: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=NAME_LIMIT, strict=True),
        AfterValidator(_grid_name),
    ] = Field(examples=["traingrid"])
    """First part of the name of everything the grid creates: lower-case letters, digits and single hyphens."""
    home: RegionName = Field(examples=["us-east-1"])
    """Region of the control plane; need not be a training Region."""
    regions: dict[RegionName, Region] = Field(min_length=1, examples=[{"us-west-2": {}}])
    """Training Regions."""
    images: dict[Text, Image] = Field(min_length=1, examples=[{"resnet": {"repository": "training", "tag": "1"}}])
    """Training images by alias."""
    job: JobDefaults = Field(examples=[{"image": "resnet", "instance_type": "ml.g5.48xlarge"}])
    """Defaults of every job."""
    instance_types: tuple[InstanceType, ...] = Field(default=(), examples=[["ml.p4d.24xlarge", "ml.g5.48xlarge"]])
    """Instance types that a manifest may name, beside that of `job`."""
    image_registries: tuple[ImageRegistry, ...] = Field(
        default=(), examples=[["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training"]]
    )
    """Where images come from that a manifest names by URI, beside the grid's own ECR: a registry in ECR, or a part of
    one; "{region}" stands for the job's Region."""
    algorithms: tuple[AlgorithmName, ...] = Field(default=(), examples=[["my-algorithm"]])
    """SageMaker algorithm resources that a manifest may name; in an ARN "{region}" stands for the job's Region."""
    limits: Limits = Limits()
    """The most that one submission may ask for."""
    orchestrator: Orchestrator = Orchestrator()
    """Size and number of the Batch children."""
    log_retention_days: int = Field(default=90, strict=True, examples=[90])
    """Days that logs of the control plane are kept."""

    @field_validator("regions", mode="before")
    @classmethod
    def _region_without_settings(cls, regions: object) -> object:
        """Read `us-west-2:` with nothing behind it as a Region without settings of its own."""
        if isinstance(regions, dict):
            return {region: {} if settings is None else settings for region, settings in regions.items()}
        return regions

    @field_validator("regions")
    @classmethod
    def _bucket_lies_in_one_region(cls, regions: dict[str, Region]) -> dict[str, Region]:
        owners: dict[str, str] = {}
        for region, settings in regions.items():
            for bucket in settings.data_buckets:
                if owners.setdefault(bucket, region) != region:
                    raise broken_rule(
                        f"{bucket} stands under {owners[bucket]} too, and a bucket lies in one Region", region
                    )
        return regions

    @field_validator("job")
    @classmethod
    def _image_is_described(cls, job: JobDefaults, info: ValidationInfo) -> JobDefaults:
        images = info.data.get("images")  # absent if wrong itself: then that is the error to tell
        if images is not None and job.image not in images and "/" not in job.image:
            context = {"choices": tuple(images), "at": "image", "value": job.image}
            raise PydanticCustomError("unknown_image", "`images` has no such alias", context)
        return job

    @field_validator("log_retention_days")
    @classmethod
    def _retention_exists(cls, days: int) -> int:
        if days not in LOG_RETENTION_DAYS:
            raise broken_rule(f"CloudWatch Logs keeps logs for {', '.join(map(str, LOG_RETENTION_DAYS))} days")
        return days

    def repositories(self) -> tuple[str, ...]:
        """Return the short names of the ECR repositories of every training Region, `training` always among them."""
        return tuple(sorted({"training", *(image.repository for image in self.images.values() if image.repository)}))

    def image_uri(self, image: str, account: str, region: str) -> str:
        """Return the URI that a job in `region` pulls: of the alias `image`, or of an image given by its URI.

        Raises KeyError for a name that is neither an alias nor a URI.
        """
        known = self.images.get(image)
        if known is None and "/" not in image:
            raise KeyError(image)
        if known is not None and known.repository is not None and known.tag is not None:
            return names.image_uri(account, region, names.repository(self.name, known.repository), known.tag)
        return (known.uri or image if known else image).replace("{region}", region)

    def data_buckets(self, account: str, region: str) -> tuple[str, ...]:
        """Return the buckets that jobs in `region` may read: the grid's own and those listed in grid.yaml."""
        return (names.data_bucket(self.name, account, region), *self.regions[region].data_buckets)

    def to_environment(self) -> str:
        """Return the grid as compact JSON without defaults, for the environment variable TRAINGRID_GRID."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def from_environment(cls, text: str) -> Self:
        """Return the grid that `to_environment` wrote. Raises pydantic's ValidationError for anything else."""
        return cls.model_validate_json(text)
