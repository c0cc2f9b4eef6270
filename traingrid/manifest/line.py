"""Manifest lines: a validated line, and its conversion to a job with the grid's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.job.channels import channels, setting, streamed, streams_of
from traingrid.job.job import Job, Replica
from traingrid.job.launchers import launcher_of, processes_per_host
from traingrid.manifest.values import metric_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.grid.deployment import Deployment
    from traingrid.grid.job_defaults import JobDefaults
    from traingrid.grid.model import Grid
    from traingrid.job.job import BackendName, Inputs

MAX_NAME_CHARACTERS = 128
CAPACITY_WAIT_SECONDS = 1800
"""How long a line with several candidates, one of them on EKS, waits for capacity unless it sets `capacity_wait`.

SageMaker ends a training job without capacity by itself; Kubernetes lets it wait without limit."""
# Spot: how much longer than max_runtime a job may wait for capacity, unless its line sets max_wait.
_WAIT_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Line:
    """One validated line of a manifest, without the grid's defaults.

    Attributes:
        number: The line number, from 1 as in an editor.
        region: A training Region of the grid.
        name: The job's name; by default the last part of its data's path.
        data: The folder above the grid's channels; None if the line defines its own channels.
        inputs: The channels that the line defines; keys that it omits are unset.
        settings: The job fields that the line sets, by their names in a manifest, with validated values.
        replicas: The folder or the channels of the same data in other Regions, by Region.
        copy_from: The folder in another Region that is copied to `data` before the training; None to copy nothing.
    """

    number: int
    region: str
    name: str
    data: S3Uri | None = None
    inputs: Inputs = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    replicas: Mapping[str, S3Uri | Inputs] = field(default_factory=dict)
    copy_from: S3Uri | None = None

    @property
    def places(self) -> dict[str, S3Uri | Inputs]:
        """The folder or the channels of the data in each of the line's Regions, its own first."""
        return {self.region: self.data or self.inputs, **self.replicas}

    def priority(self) -> int:
        """Return the job's priority in its submission; a higher priority starts earlier."""
        return int(self.settings.get("priority", 0))

    def setting(self, name: str, defaults: JobDefaults) -> Any:
        """Return a field's value, or the grid's default if the line omits it."""
        return setting(self.settings, name, defaults)


def in_order(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines in the order of their jobs' indexes: by priority, then by line number.

    AWS Batch starts the children of an array by their index as room for them becomes free.
    """
    if not any(line.settings for line in lines):
        return lines
    return sorted(lines, key=Line.priority, reverse=True)  # stable


def jobs_of_lines(lines: Sequence[Line], deployment: Deployment, submission: str) -> list[Job]:
    """Return the jobs of a manifest's lines, by index, with the grid's defaults."""
    return list(iter_jobs(lines, deployment, submission))


def iter_jobs(lines: Sequence[Line], deployment: Deployment, submission: str) -> Iterator[Job]:
    """Yield the jobs of a manifest's lines, by index, with the grid's defaults.

    Args:
        lines: All lines of the manifest.
        deployment: The grid.
        submission: The submission's id, which is part of the output path.
    """
    for index, line in enumerate(in_order(lines)):
        yield job_of_line(line, index, deployment, submission)


def job_of_line(line: Line, index: int, deployment: Deployment, submission: str) -> Job:
    """Return the job of one line; `index` is its index in the submission."""
    defaults = deployment.grid.job
    runtime, spot = line.setting("max_runtime", defaults), bool(line.settings.get("spot", False))
    algorithm = is_algorithm(line.settings, deployment.grid)
    places = {
        region: _place(line, region, data, deployment, (submission, index)) for region, data in line.places.items()
    }
    backends = [name for fields in places.values() for name in fields["backends"]]
    here = places.pop(line.region)
    return Job(
        index=index,
        line=line.number,
        name=line.name,
        region=line.region,
        streams=streams_of(line.settings, defaults) if streamed(here["inputs"]) else "host",
        instance_type=line.setting("instance_type", defaults),
        instance_count=line.setting("instance_count", defaults),
        volume_gb=line.setting("volume_gb", defaults),
        max_runtime_seconds=runtime,
        max_wait_seconds=line.settings.get("max_wait", runtime + _WAIT_SECONDS) if spot else 0,
        spot=spot,
        keep_alive_seconds=line.settings.get("keep_alive", 0),
        launcher="mpi" if algorithm else launcher_of(line.settings, defaults),
        processes_per_host=processes_per_host(line.settings, defaults),
        mpi_options=line.setting("mpi_options", defaults),
        source=line.settings.get("source", ""),
        entry_point=line.settings.get("entry_point", ""),
        built_in=algorithm and "algorithm" not in line.settings,
        hyperparameters=hyperparameters(line.settings, deployment.grid),
        metrics={} if algorithm else line.settings.get("metrics") or default_metrics(defaults),
        environment=line.settings.get("environment", {}),
        tags=line.settings.get("tags", {}),
        tensorboard=is_ours(line.settings, deployment.grid),
        metric_history=is_ours(line.settings, deployment.grid),
        priority=line.priority(),
        retries=line.setting("retries", defaults),
        launch=line.setting("launch", defaults),
        share=line.setting("share", defaults) or "",
        residency=line.settings.get("residency", ()),
        finish_by=line.settings.get("finish_by", ""),
        estimated_runtime_seconds=line.settings.get("estimated_runtime", 0),
        estimated_dollars=line.settings.get("estimated_dollars"),
        budget_dollars=line.settings.get("budget_dollars"),
        dollars_per_hour=line.settings.get("dollars_per_hour"),
        spot_dollars_per_hour=line.settings.get("spot_dollars_per_hour"),
        capacity_wait_seconds=line.settings.get("capacity_wait", _capacity_wait(backends)),
        eks_kind=line.settings.get("eks_kind", ""),
        eks_queue=line.settings.get("eks_queue", ""),
        replicas={region: Replica(**fields) for region, fields in places.items()},
        copy_from=str(line.copy_from or ""),
        copy_to=str(line.data) if line.copy_from else "",
        init_from=line.settings.get("init_from"),
        profile=line.settings.get("profile", ""),
        **here,
    )


def is_ours(settings: Mapping[str, Any], grid: Grid) -> bool:
    """Return True if a job uses the grid's own training image, which writes TensorBoard data to a configured path."""
    if "algorithm" in settings:
        return False
    image = grid.images.get(settings.get("image", grid.job.image))
    return image is not None and names.TRAINING_REPOSITORY in (image.build, image.repository)


def is_algorithm(settings: Mapping[str, Any], grid: Grid) -> bool:
    """Return True if a job trains an algorithm resource or one of SageMaker's built-in algorithms."""
    image = grid.images.get(settings.get("image", grid.job.image))
    return "algorithm" in settings or (image is not None and image.algorithm is not None)


def hyperparameters(settings: Mapping[str, Any], grid: Grid) -> dict[str, str]:
    """Return a job's hyperparameters: those of the line, and the grid's if they are for the same program.

    The grid's defaults do not apply to a script, which gets its hyperparameters as arguments and may not know them, and
    to an algorithm other than the default one.
    """
    own: dict[str, str] = settings.get("hyperparameters", {})
    if "source" in settings:
        return own
    default = "algorithm" not in settings and settings.get("image", grid.job.image) == grid.job.image
    return own if is_algorithm(settings, grid) and not default else {**grid.job.hyperparameters, **own}


def default_metrics(defaults: JobDefaults) -> dict[str, str]:
    """Return the grid's metrics with the regular expressions that find them."""
    return {name: metric_regex(name) for name in defaults.metrics}


def _place(
    line: Line, region: str, data: S3Uri | Inputs, deployment: Deployment, identity: tuple[str, int]
) -> dict[str, Any]:
    """Return the fields of a job that depend on its Region, which are those of `Replica`."""
    grid, account, settings = deployment.grid, deployment.account_of(region), line.settings
    own = output = names.output_prefix(grid.name, account, region, *identity)
    if "output" in settings:
        output = f"s3://{names.output_bucket(grid.name, account, region)}/{settings['output']}/"
    kept = settings.get("checkpoints", bool(settings.get("spot", False)))
    if isinstance(kept, str):
        kept = f"s3://{names.output_bucket(grid.name, account, region)}/{kept}/"
    elif kept:
        kept = f"{own}checkpoints/"
    algorithm = settings.get("algorithm", "").replace("{region}", region)
    image = "" if algorithm else deployment.image_uri(settings.get("image", grid.job.image), region)
    return {
        "inputs": channels(data, settings, grid.job),
        "output": output,
        "image": image,
        "algorithm": algorithm,
        "checkpoints": kept or "",
        "training_plan": settings.get("training_plan", {}).get(region, ""),
        "backends": backends_of(line, region, grid),
    }


def backends_of(line: Line, region: str, grid: Grid) -> tuple[BackendName, ...]:
    """Return the backends of a line in one of its Regions: the line's in its own Region, of which others may lack some.

    They can be empty in a Region of `replicas`; `traingrid.manifest.eks_checks` refuses such a line.
    """
    there = grid.regions[region]
    wanted: tuple[BackendName, ...] = line.settings.get("backend", (there.backend,))
    return wanted if region == line.region else tuple(name for name in wanted if name in there.backends)


def _capacity_wait(backends: Sequence[BackendName]) -> int:
    """Return the default `capacity_wait`, in seconds, of a job with these backends in all of its Regions; 0: none."""
    return CAPACITY_WAIT_SECONDS if len(backends) > 1 and "eks" in backends else 0
