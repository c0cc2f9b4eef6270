"""Manifest lines: a validated line, and its conversion to a job with the grid's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.job.backend_traits import TRAITS
from traingrid.job.channels import channels, is_streamed
from traingrid.job.job import Job, JobReplica
from traingrid.job.launchers import processes_per_host
from traingrid.job.metrics import metric_regex
from traingrid.manifest.fields import MAX_WAIT_LIMIT, NO_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.grid.deployment import Deployment
    from traingrid.grid.image import Image
    from traingrid.grid.job_defaults import JobDefaults
    from traingrid.grid.model import GridSettings
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.job import Inputs
    from traingrid.manifest.fields import LineSettings

NO_SUBMISSION = "00000000"
"""The submission of a job that is only checked: its id is a hash of the object's version, which does not exist yet."""
CAPACITY_WAIT_SECONDS = 1800
"""How long a line with several candidates, one of them on EKS, waits for capacity unless it sets `capacity_wait`.

SageMaker ends a training job without capacity by itself; Kubernetes lets it wait without limit."""
# Spot: how much longer than max_runtime a job may wait for capacity, unless its line sets max_wait or finish_by.
_WAIT_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Line:
    """One validated line of a manifest, without the grid's defaults.

    Attributes:
        number: The line number, from 1 as in an editor.
        region: A training Region of the grid.
        name: The job's name; by default the last part of its data's path.
        data: The folder with the data; None if the line defines its own channels.
        inputs: The channels that the line defines; keys that it omits are unset.
        settings: The optional fields that the line sets.
        replicas: The folder or the channels of the same data in other Regions, by Region.
        copy_from: The folder in another Region that is copied to `data` before the training; None to copy nothing.
        fields: The names of all fields that have a value on the line; while the line is checked, also those whose value
            is invalid and therefore missing in the other attributes.
    """

    number: int
    region: str
    name: str
    data: S3Uri | None = None
    inputs: Inputs = field(default_factory=dict)
    settings: LineSettings = NO_SETTINGS
    replicas: dict[str, S3Uri | Inputs] = field(default_factory=dict)
    copy_from: S3Uri | None = None
    fields: frozenset[str] = frozenset()

    @property
    def places(self) -> dict[str, S3Uri | Inputs]:
        """The folder or the channels of the data in each of the line's Regions, its own first."""
        return {self.region: self.data or self.inputs, **self.replicas}

    def priority(self) -> int:
        """Return the job's priority in its submission; a higher priority starts earlier."""
        return self.settings.priority or 0


def order_by_priority(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines in the order of their jobs' indexes: by priority, then by line number.

    AWS Batch starts the children of an array by their index as room for them becomes free.
    """
    if not any(line.settings.priority for line in lines):
        return lines
    return sorted(lines, key=Line.priority, reverse=True)  # stable


def jobs_of_lines(lines: Sequence[Line], deployment: Deployment, submission: str) -> list[Job]:
    """Return the jobs of a manifest's lines, by index, with the grid's defaults."""
    return list(iter_jobs(lines, deployment, submission))


def iter_jobs(lines: Sequence[Line], deployment: Deployment, submission: str) -> Iterator[Job]:
    """Yield the jobs of a manifest's lines, by index, with the grid's defaults.

    Args:
        lines: All lines of the manifest.
        submission: The submission's id, which is part of the output path.
    """
    for index, line in enumerate(order_by_priority(lines)):
        yield job_of_line(line, index, deployment, submission)


def job_of_line(line: Line, index: int, deployment: Deployment, submission: str) -> Job:
    """Return the job of one line; `index` is its index in the submission."""
    grid, settings = deployment.grid, line.settings
    defaults = settings.applied_to(grid.job)
    algorithm = is_algorithm(settings, grid)
    sites = {
        region: _fields_of_region(line, region, data, deployment, (submission, index))
        for region, data in line.places.items()
    }
    backends = [name for site in sites.values() for name in site["backends"]]
    own_site = sites.pop(line.region)
    attributes: dict[str, Any] = {
        "max_wait_seconds": _max_wait(settings, defaults) if settings.spot else 0,
        "capacity_wait_seconds": settings.capacity_wait or _capacity_wait(backends),
        **settings.job_attributes(),
        **own_site,
    }
    return Job(
        index=index,
        line=line.number,
        name=line.name,
        region=line.region,
        streams=defaults.streams if is_streamed(own_site["inputs"]) else "host",
        instance_type=defaults.instance_type,
        instance_count=defaults.instance_count,
        volume_gb=defaults.volume_gb,
        max_runtime_seconds=defaults.max_runtime,
        launcher="mpi" if algorithm else defaults.launcher,
        processes_per_host=processes_per_host(defaults),
        mpi_options=defaults.mpi_options,
        built_in=algorithm and not settings.algorithm,
        hyperparameters=hyperparameters(settings, grid),
        metrics={} if algorithm else settings.metrics or default_metrics(grid.job),
        tensorboard=uses_grid_image(settings, grid),
        metric_history=uses_grid_image(settings, grid),
        retries=defaults.retries,
        launch=defaults.launch,
        share=defaults.share or "",
        replicas={region: JobReplica(**site) for region, site in sites.items()},
        by_layout=line.data is not None and not algorithm,
        copy_from=str(line.copy_from or ""),
        copy_to=str(line.data) if line.copy_from else "",
        **attributes,
    )


def image_of(settings: LineSettings, grid: GridSettings) -> Image | None:
    """Return the image of grid.yaml that a job uses; None for an algorithm resource and for an image by its URI."""
    return None if settings.algorithm else grid.images.get(settings.image or grid.job.image)


def uses_grid_image(settings: LineSettings, grid: GridSettings) -> bool:
    """Return True if a job uses the grid's own training image, which writes TensorBoard data to a configured path."""
    image = image_of(settings, grid)
    return image is not None and names.TRAINING_REPOSITORY in (image.build, image.repository)


def uses_own_trainer(settings: LineSettings, grid: GridSettings) -> bool:
    """Return True if a job runs the trainer of the grid's own training image, not a script."""
    return uses_grid_image(settings, grid) and not settings.source


def is_algorithm(settings: LineSettings, grid: GridSettings) -> bool:
    """Return True if a job trains an algorithm resource or one of SageMaker's built-in algorithms."""
    image = image_of(settings, grid)
    return bool(settings.algorithm) or (image is not None and image.algorithm is not None)


def hyperparameters(settings: LineSettings, grid: GridSettings) -> dict[str, str]:
    """Return a job's hyperparameters: those of the line, and the grid's if they are for the same program.

    The grid's defaults do not apply to a script, which gets its hyperparameters as arguments and may not know them, and
    to an algorithm other than the default one.
    """
    if settings.source:
        return settings.hyperparameters
    is_default = not settings.algorithm and settings.image in (None, grid.job.image)
    if is_algorithm(settings, grid) and not is_default:
        return settings.hyperparameters
    return {**grid.job.hyperparameters, **settings.hyperparameters}


def default_metrics(defaults: JobDefaults) -> dict[str, str]:
    """Return the grid's metrics with the regular expressions that find them."""
    return {name: metric_regex(name) for name in defaults.metrics}


def _fields_of_region(
    line: Line, region: str, data: S3Uri | Inputs, deployment: Deployment, identity: tuple[str, int]
) -> dict[str, Any]:
    """Return the attributes of a job that depend on its Region, which are those of `JobReplica`."""
    grid = deployment.grid
    account = deployment.account_of(region)
    settings = line.settings
    output = names.output_prefix(grid.name, account, region, *identity)
    folder = output
    bucket = names.output_bucket(grid.name, account, region)
    if settings.output:
        output = f"s3://{bucket}/{settings.output}/"
    checkpoints = bool(settings.spot) if settings.checkpoints is None else settings.checkpoints
    if isinstance(checkpoints, str):
        checkpoints = f"s3://{bucket}/{checkpoints}/"
    elif checkpoints:
        checkpoints = names.checkpoint_prefix(folder)
    algorithm = (settings.algorithm or "").replace("{region}", region)
    return {
        "inputs": channels(data, settings.applied_to(grid.job)),
        "output": output,
        "image": "" if algorithm else deployment.image_uri(settings.image or grid.job.image, region),
        "algorithm": algorithm,
        "checkpoints": checkpoints or "",
        "training_plan": settings.training_plan.get(region, ""),
        "backends": backends_of(line, region, grid),
    }


def backends_of(line: Line, region: str, grid: GridSettings) -> tuple[BackendName, ...]:
    """Return the backends of a line in one of its Regions: the line's in its own Region, of which others may lack some.

    They can be empty in a Region of `replicas`; `traingrid.manifest.checks.backends` refuses such a line.
    """
    settings_of_region = grid.regions[region]
    backends: tuple[BackendName, ...] = line.settings.backend or (settings_of_region.backend,)
    return (
        backends if region == line.region else tuple(name for name in backends if name in settings_of_region.backends)
    )


def _max_wait(settings: LineSettings, defaults: JobDefaults) -> int:
    """Return the maximum seconds of waiting and running; with a deadline, a child reduces the limit to it."""
    if settings.finish_by and defaults.launch == "direct" and not settings.max_wait:
        return MAX_WAIT_LIMIT
    return settings.max_wait or defaults.max_runtime + _WAIT_SECONDS


def _capacity_wait(backends: Sequence[BackendName]) -> int:
    """Return the default `capacity_wait`, in seconds, of a job with these backends in all of its Regions; 0: none."""
    may_wait = len(backends) > 1 and not all(TRAITS[name].fails_without_capacity for name in backends)
    return CAPACITY_WAIT_SECONDS if may_wait else 0
