"""Manifest fields: the one table of the fields of a line.

Every field is one row: its name, its reader, and its meaning for the documentation. `LineSettings` has the optional
fields with their types. Columns, the check of a line, the job, suggestions for unknown names and the table in
docs/manifest-fields.md follow from this table (`make manifest-page`).
"""

# ruff: noqa: RUF009  # optional, allowed and mapping return dataclasses.field
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from traingrid.grid.field_types import MAX_KEEP_ALIVE, MAX_RUNTIME_LIMIT
from traingrid.grid.job_defaults import JobDefaults
from traingrid.manifest import entries, readers
from traingrid.manifest.field import Field, allowed, mapping, optional
from traingrid.manifest.metrics import metrics
from traingrid.manifest.values import choice, count, dollars, duration, flag, moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.job.backend_traits import BackendName
    from traingrid.job.initial_model import InitialModel
    from traingrid.job.job import Launcher, ObjectKind, Streams

MAX_WAIT_LIMIT = 2 * MAX_RUNTIME_LIMIT
"""Maximum seconds of waiting and running of a spot training job; SageMaker documents no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineSettings:
    """The optional fields of a line, valid; None or an empty mapping if the line does not set the field."""

    input_mode: Literal["File", "FastFile", "Pipe"] | None = optional(
        readers.input_mode, "`File`, `FastFile` or `Pipe`, for every channel without its own `input_mode`"
    )
    streams: Streams | None = optional(
        choice("host", "rank"),
        "with Pipe: `host`, a stream that the ranks of a host share, or `rank`, a stream for each rank",
    )
    shuffle_seed: int | None = optional(
        readers.shuffle_seed, "with Pipe: SageMaker reshuffles a channel's objects in every epoch"
    )
    init_from: InitialModel | None = optional(
        readers.initial_model,
        "`SUBMISSION/INDEX`: the job begins with the weights of the model of this completed job of the grid "
        "([incremental-training.md](incremental-training.md))",
        job="init_from",
    )
    image: str | None = allowed(
        readers.image,
        "an alias of `images`, or a URI in the grid's own ECR or one of `image_registries`; `{region}` is the job's "
        "Region. A built-in algorithm gets only the line's hyperparameters, and accepts neither `metrics` nor "
        "`source`; the rules of three algorithms are checked ([algorithms.md](algorithms.md))",
    )
    algorithm: str | None = allowed(
        readers.algorithm,
        "in place of an image: a SageMaker algorithm resource from `algorithms`, also of AWS Marketplace "
        "([algorithms.md](algorithms.md#algorithm-resources-and-aws-marketplace))",
    )
    source: str | None = allowed(
        readers.source,
        "with `entry_point`: a script in place of the image's own trainer: a `sourcedir.tar.gz` in S3, or a folder "
        "beside the manifest, which `traingrid submit` packs and uploads. With `training.network_isolation` it uses "
        "one of the 20 channels, named `code`, and a requirements.txt cannot be installed",
        job="source",
    )
    entry_point: str | None = optional(readers.entry_point, "the program in `source`", job="entry_point")
    hyperparameters: dict[str, str] = mapping(
        "hp.",
        entries.hyperparameter,
        "added to those of the grid, which do not apply to a line with `source`; numbers and booleans become text. "
        "Those of the [built-in trainer](hyperparameters.md) are checked by its own rules if the deployment builds "
        "the image",
    )
    instance_type: str | None = allowed(
        lambda value, rules, _: rules.instance_type(value), "the grid's default, or one of `instance_types`"
    )
    instance_count: int | None = optional(count(1), "number of hosts")
    volume_gb: int | None = optional(count(1), "GB of disk of each host")
    launcher: Launcher | None = optional(
        choice("mpi", "torchrun", "none"),
        "`mpi`, `torchrun` or `none`: how a script's ranks are started ([launchers](scripts.md#launchers))",
    )
    processes_per_host: int | None = optional(count(1), "the ranks that `mpi` or `torchrun` starts on a host")
    mpi_options: str | None = optional(readers.mpi_options, "options of mpirun")
    spot: bool | None = optional(flag, "true for spot instances, which cost less and can be interrupted", job="spot")
    max_runtime: int | None = optional(
        duration(MAX_RUNTIME_LIMIT),
        "a duration such as `90m`, `24h`, `2d`, at most `training.max_runtime` of grid.yaml. It covers all attempts "
        "of one training job together: with `retries`, SageMaker repeats it after its own internal errors",
    )
    max_wait: int | None = optional(
        duration(MAX_WAIT_LIMIT),
        "with spot: waiting and running, by default `max_runtime` after `finish_by`, or `max_runtime` and a day",
    )
    keep_alive: int | None = optional(
        duration(MAX_KEEP_ALIVE),
        "how long SageMaker keeps the instances of the ended job, at their full price, for a next job that uses the "
        "same type, number and disk of instances, such as `10m`; at most `training.max_keep_alive` of grid.yaml, "
        "without which no line may have it ([sweeps.md](sweeps.md#warm-instances)). Not with `spot`, a budget, "
        "`launch: queued` or a training plan",
        job="keep_alive_seconds",
        not_on_eks="EKS keeps no instances for the next job",
    )
    training_plan: dict[str, str] = dataclasses.field(
        default_factory=dict,
        metadata={
            "field": Field(
                meaning="the ARN of a [SageMaker training plan](#training-plans) in the line's Region; in JSON also "
                '`{"us-east-1": "arn:…"}` with an ARN for some of its Regions',
                not_on_eks="EKS does not use SageMaker's plans",
            )
        },
    )
    checkpoints: bool | str | None = allowed(
        readers.checkpoints,
        "true, false, or an `s3://` URI below the Region's output bucket. Default: true with spot, and then "
        "`<submission>/<index>/checkpoints/` there. Checkpoints of a replica are in its Region; a job that moves takes "
        "the newest one [along](moves.md#checkpoints)",
    )
    output: str | None = allowed(
        lambda uri, rules, region: rules.output(uri, region),
        "an `s3://` URI below the Region's output bucket, with a folder of at most 940 bytes, and at most 500 "
        "characters in all with the grid's own image; default: `<submission>/<index>/` there",
    )
    metrics: dict[str, str] | None = optional(
        metrics,
        "replaces the grid's list: names that the training prints as `name=value`, separated by blanks, with digits "
        "only: `1,234.5`, `1 234,5`, `1/3`, `1:30`, `0x1f`, `1.5k` and `7B` are no values, but `3GB`, `5ms` and `5%` "
        "are; otherwise a blank ends a number. `val/loss=1` is a value of `val/loss`, not of `loss`. "
        'In JSON also `{"name": "regular expression"}` of at most 500 characters, whose '
        "first group is the value. Without lookaround and backreferences, it is also read for the progress in "
        "`status` ([metric history](metrics.md#metric-history))",
    )
    environment: dict[str, str] = mapping(
        "env.", entries.variable, "environment variables of the training", job="environment"
    )
    tags: dict[str, str] = mapping("tag.", entries.tag, "tags of the training job", job="tags")
    profile: str | None = optional(
        readers.profile,
        '`{"steps": "100-110"}`, or the column `profile.steps`: the training image writes a profile of these steps, '
        "which TensorBoard shows ([profiles](metrics.md#profiles))",
        prefix="profile.",
        entry="<key>",
        job="profile",
    )
    priority: int | None = optional(
        count(0, 9999),
        "0 to 9999; jobs with a higher priority get smaller indexes, and so start first. In a shared queue it is also "
        "the order within a share",
        job="priority",
    )
    launch: Literal["direct", "queued"] | None = optional(
        choice("direct", "queued"), "`direct`, or `queued` in the service queue of its Region ([queues.md](queues.md))"
    )
    share: str | None = optional(
        readers.share, "the owner of the job, from the grid's `shares`; all lines of a file have the same share"
    )
    backend: tuple[BackendName, ...] | None = optional(
        readers.backends,
        "the service that runs the job: `sagemaker` or `eks`, or both in order of preference "
        "([backends](#backends)): `[eks, sagemaker]`, in CSV `eks sagemaker`. Default: the `backend` of each Region "
        "in grid.yaml",
    )
    capacity_wait: int | None = optional(
        duration(MAX_RUNTIME_LIMIT),
        "how long the job may wait for capacity before its next backend or Region is tried, such as `30m`, which is "
        "the default if one of them is EKS; the last one waits without limit. Not with `launch: queued`",
    )
    eks_kind: ObjectKind | None = optional(
        choice("job", "mpijob"),
        "on EKS: `job` (an Indexed Job) or `mpijob`, in place of `kind` of the Region's `eks` in grid.yaml",
        job="eks_kind",
    )
    eks_queue: str | None = optional(
        readers.local_queue,
        "on EKS: the LocalQueue of Kueue, in place of `queue` of the Region's `eks` in grid.yaml",
        job="eks_queue",
    )
    residency: tuple[str, ...] | None = optional(
        readers.residency,
        "geographies (`af`, `ap`, `ca`, `eu`, `il`, `me`, `mx`, `sa`, `us`) or Regions in which the data may be; "
        "Region and replicas of the line must be among them. A Region in grid.yaml can have a "
        "[residency](moves.md#residency), too. `eu` includes London and Zurich; list Regions to exclude them",
        job="residency",
        of_plan=True,
    )
    finish_by: str | None = optional(
        moment,
        "a time such as `2026-12-01T12:00:00Z` by which the job should have ended; a [plan](planner.md) observes it, "
        "and a spot job [leaves spot instances](planner.md#deadlines-of-spot-jobs) in time",
        job="finish_by",
        of_plan=True,
    )
    instance_types: tuple[str, ...] | None = allowed(
        readers.instance_types,
        "for a plan: other instance types that the job may use, with as many accelerators as its own type",
    )
    estimated_runtime: int | None = optional(
        duration(MAX_RUNTIME_LIMIT),
        "for a plan: the expected duration of the training, such as `6h`",
        job="estimated_runtime_seconds",
        of_plan=True,
    )
    estimated_dollars: float | None = optional(
        dollars,
        "the cost of the job in US dollars; a plan writes it. A file is rejected if its estimates exceed its budget",
        job="estimated_dollars",
        of_plan=True,
    )
    budget_dollars: float | None = optional(
        dollars,
        "the budget of the whole file in US dollars; a plan writes it. When the jobs have cost the budget, all are "
        "[cancelled](planner.md#budget-at-run-time)",
        job="budget_dollars",
        of_plan=True,
    )
    dollars_per_hour: float | None = optional(
        dollars,
        "with a budget: the price of an instance-hour on demand; a plan writes it. Required on every line of a file "
        "with a budget, except lines that train on EKS only: traingrid does not know the price of a cluster's nodes, "
        "so attempts there have no cost",
        job="dollars_per_hour",
        of_plan=True,
    )
    spot_dollars_per_hour: float | None = optional(
        dollars,
        "with a budget: the expected price of an hour of a spot instance; a plan writes it",
        job="spot_dollars_per_hour",
        of_plan=True,
    )
    retries: int | None = optional(
        readers.retries, "0 to 30: how often a job is retried after failures that it did not cause"
    )

    def applied_to(self, defaults: JobDefaults) -> JobDefaults:
        """Return the grid's job defaults, with the settings of the line in place of those that it sets.

        The program of an algorithm resource cannot read one stream per rank, so its streams are always by host.
        """
        if self is NO_SETTINGS:
            return defaults
        set_values = {name: value for name in _WITH_DEFAULTS if (value := getattr(self, name)) is not None}
        if self.algorithm:
            set_values["streams"] = "host"
        return defaults.model_copy(update=set_values) if set_values else defaults

    def job_attributes(self) -> dict[str, Any]:
        """Return the attributes of a job that are a field of the line, as far as the line sets them."""
        return {job: value for name, job in _OF_JOBS if (value := getattr(self, name)) is not None}


NO_SETTINGS = LineSettings()
"""The settings of a line with only a Region and data."""
_DATA = (
    Field(name="region", meaning="a training Region of the grid"),
    Field(
        name="s3_uri",
        meaning="the folder with the data, in a bucket of that Region that the grid may read; its content determines "
        "its [channels](input.md#channels-of-a-folder)",
    ),
    Field(
        name="inputs",
        prefix="input.",
        entry="<channel>",
        meaning="the channels one by one: a URI, or `{uri, input_mode, distribution, shuffle_seed, manifest, "
        "content_type, attributes, record_wrapper}` "
        "([augmented manifests](input.md#augmented-manifests-and-recordio)); in JSON Lines also "
        "`{file_system, type, path}`, a folder of [EFS or FSx for Lustre](file-systems.md)",
    ),
    Field(
        name="copy_from",
        meaning="a folder in a data bucket of another Region, which is copied to `s3_uri` before the training "
        "([moves.md](moves.md)); only with `moves: true` in grid.yaml",
    ),
    Field(
        name="replicas",
        prefix="replica.",
        entry="<region>",
        meaning="the same data in other Regions, in the order to try after a capacity error: the folder, or with "
        "`inputs` the same channels",
    ),
    Field(name="name", meaning="the job's display name; default: the last part of the path"),
)
SETTINGS: Mapping[str, Field] = {
    attribute.name: dataclasses.replace(attribute.metadata["field"], name=attribute.name)
    for attribute in dataclasses.fields(LineSettings)
}
"""The optional fields, by name."""
FIELDS: Mapping[str, Field] = {field.name: field for field in (*_DATA, *SETTINGS.values())}
"""All fields, by name."""
MAPPINGS: Mapping[str, str] = {field.prefix: field.name for field in FIELDS.values() if field.prefix}
"""The mapping to which a column of CSV with this prefix adds an entry."""
_WITH_DEFAULTS = tuple(
    name for name in SETTINGS if name in JobDefaults.model_fields and name not in ("hyperparameters", "metrics")
)
_OF_JOBS = tuple((field.name, field.job) for field in SETTINGS.values() if field.job)
