"""Merge line: the manifest line of a merge, an ordinary job on one host without accelerators."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.algorithms.images import RECORDIO
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.grid.image import TORCH
from traingrid.grid.residency import is_resident
from traingrid.job.accelerators import accelerators
from traingrid.manifest.fields import LineSettings
from traingrid.manifest.line import image_of, uses_grid_image
from traingrid.merge.models import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.aws.s3_copy import ObjectHead
    from traingrid.grid.deployment import Deployment
    from traingrid.grid.model import GridSettings
    from traingrid.job.job import Channel
    from traingrid.merge.models import Method, Model

_SHOWN_PARTS = 17
"""Two metrics of each part, and those of the merged network: SageMaker allows 40 definitions
(botocore's service model, MetricDefinitionList)."""
_GB = 10**9
_COPIES = 3
"""A model is on the disk as its archive, unpacked, and in the result."""
_OWN_GB = 10


@dataclass(frozen=True, kw_only=True)
class RoundStep:
    """The outer step that a merge takes as a part of rounds (training_container/merge/outer_step.py).

    Attributes:
        rounds: The name of the rounds.
        number: The number of the round, from 1.
        weight_by: The weight of each model in the mean: "records" or "models", which are all alike.
        statistics: The statistics of batch norm: "average" of the models, or "recompute" from training images.
        learning_rate: The outer learning rate; 1 without momentum is FedAvg.
        start: The job with whose model the round began, SUBMISSION/INDEX; empty if it began with random weights.
    """

    rounds: str
    number: int
    weight_by: str
    statistics: str
    learning_rate: float
    momentum: float
    start: str = ""

    @property
    def needs_start(self) -> bool:
        """True if the step reads the model with which the round began."""
        return bool(self.start) and (self.learning_rate != 1 or self.momentum != 0)

    @property
    def needs_velocity(self) -> bool:
        """True if the step reads the velocity of the round before."""
        return self.number > 1 and self.momentum != 0

    @property
    def hyperparameters(self) -> dict[str, str]:
        """The hyperparameters that the merge reads (training_container/merge/options.py)."""
        return {
            "merge_weight_by": self.weight_by,
            "merge_statistics": self.statistics,
            "merge_outer_round": str(self.number),
            "merge_outer_learning_rate": f"{self.learning_rate:g}",
            "merge_outer_momentum": f"{self.momentum:g}",
        }


@dataclass(frozen=True, kw_only=True)
class MergeRequest:
    """The options of a merge.

    Attributes:
        region: The Region; empty for the one that has most of the models.
        data: The folder with `train/` and `validation/`; empty for the data of the first job of the Region.
        instance_type: The instance type; empty for the grid's first one without accelerators.
        image: The alias of the training image; empty for the grid's default.
        folders: With the method parts: whether each model gets a folder.
        statistics_images: With the method average: the number of images for the statistics of batch norm.
        step: With the methods average and weights: the step of rounds; None for the mean of models that count alike.
    """

    method: Method = "average"
    region: str = ""
    data: str = ""
    instance_type: str = ""
    image: str = ""
    folders: bool = False
    statistics_images: int = 8_192
    step: RoundStep | None = None


_READ_BY: dict[str, tuple[Method, ...]] = {
    "data": ("average", "ensemble"),
    "folders": ("parts",),
    "statistics_images": ("average",),
}
"""The methods that read an option; all read the other options."""


def check_options(request: MergeRequest) -> None:
    """Check that the line of a merge depends on every option that is given, so that another option is another merge.

    Raises:
        UsageError: The method does not read an option.
    """
    for name, methods in _READ_BY.items():
        if request.method not in methods and getattr(request, name) != getattr(MergeRequest, name):
            option = f"--{name.replace('_', '-')}"
            text = f"The method {request.method} does not read the option {option}."
            raise UsageError(text, f"Leave {option} out, or use --method {' or '.join(methods)}.")


def region_of(models: Sequence[Model], request: MergeRequest, grid: GridSettings) -> str:
    """Return the Region of a merge, to which the models of other Regions are copied.

    Raises:
        UsageError: The Region is not in the grid, or a model must not be copied to it.
    """
    counted = Counter(model.job.region for model in models)
    region = request.region or max(counted, key=lambda candidate: counted[candidate])
    if region not in grid.regions:
        raise UsageError(f"{region} is not a training Region of this grid.", f"Its Regions: {', '.join(grid.regions)}.")
    for model in models:
        check_copy(model, region, grid)
    return region


def check_copy(model: Model, region: str, grid: GridSettings) -> None:
    """Raise a UsageError if a model must not be copied to a Region."""
    source, problem = model.job.region, f"The model of {model} cannot be copied from {model.job.region} to {region}"
    if not is_resident(region, model.job.residency):
        areas = ", ".join(model.job.residency)
        raise UsageError(f"{problem}: its line allows only {areas}.", "Give another --region, or leave the job out.")
    if other_accounts := sorted({source, region} & grid.other_accounts().keys()):
        text = f"{problem}: {other_accounts[0]} is in another account than the home Region."
        raise UsageError(text, "Name only jobs of Regions in that account, or download the models.")
    if source == region:
        return
    if not grid.moves:
        next_step = f"Set it and deploy, or name only jobs of {region}."
        raise UsageError(f"{problem}: grid.yaml does not have `moves: true`.", next_step)
    if not grid.may_hold(region, source):
        areas = ", ".join(grid.regions[source].residency)
        text = f"{problem}: grid.yaml allows the data of {source} only in {areas}."
        raise UsageError(text, "Give another --region, or leave the job out.")


def models_folder(models: Sequence[Model], heads: Sequence[ObjectHead], region: str, deployment: Deployment) -> S3Uri:
    """Return the folder of the copies of the models; other models, or other contents, have another folder.

    Args:
        heads: The facts about their archives, in the same order.
    """
    content = "\n".join(f"{model.archive} {object_head.etag}" for model, object_head in zip(models, heads, strict=True))
    bucket = names.data_bucket(deployment.grid.name, deployment.account_of(region), region)
    return S3Uri(bucket, f"{names.MERGE_PREFIX}{hashlib.sha256(content.encode()).hexdigest()[:16]}")


def copy_uri(model: Model, number: int, folder: S3Uri) -> S3Uri:
    """Return the URI of a model's copy, whose name the training image reads (training_container/merge/parts.py)."""
    return folder / f"part-{number:03d}-{model.submission}-{model.job.index}.tar.gz"


def merge_line(  # noqa: PLR0913  # one argument for each independent value
    models: Sequence[Model],
    request: MergeRequest,
    folder: S3Uri,
    size: int,
    *,
    region: str,
    local: Model | None,
    deployment: Deployment,
) -> dict[str, Any]:
    """Return the line of a merge.

    Args:
        folder: The folder of the copies of the models.
        size: The size of all archives, in bytes.
        region: The Region in which the merge runs.
        local: A job of the Region, whose data the merge reads; None if there is none.

    Raises:
        UsageError: The grid has no instance type without accelerators, or no training image; or there is no data.
    """
    grid = deployment.grid
    if not uses_grid_image(LineSettings(image=request.image or None), grid):
        text = f"The image {request.image or grid.job.image} is not the grid's training image, which has the merge."
        raise UsageError(text, "Give the alias of that image in grid.yaml: --image ALIAS.")
    line: dict[str, Any] = {
        "region": region,
        "name": _name(models, request),
        "inputs": {"models": {"uri": f"{folder}/", "input_mode": "File"}, **_data(local, request, region)},
        "image": request.image or None,
        "instance_type": _instance_type(request, grid),
        "instance_count": 1,
        "processes_per_host": 1,
        "launcher": _launcher(request, grid),
        "volume_gb": max(grid.job.volume_gb, ceil(_COPIES * size / _GB) + _OWN_GB),
        "residency": _residency(models, region),
        "share": models[0].job.share or None,
        "hyperparameters": _hyperparameters(models, request),
        "tags": {"merge": models[0].submission, **({"rounds": request.step.rounds} if request.step else {})},
    }
    if request.method in ("average", "ensemble"):
        line["metrics"] = _metrics(len(models))
    return {name: value for name, value in line.items() if value not in (None, [])}


def _name(models: Sequence[Model], request: MergeRequest) -> str:
    step = request.step
    return f"{step.rounds}-{step.number:03d}-merge" if step else f"merge-{models[0].submission}-{request.method}"


def _launcher(request: MergeRequest, grid: GridSettings) -> str:
    """Return the launcher: none for a method without networks of TensorFlow, if the image may be that without MPI."""
    image = image_of(LineSettings(image=request.image or None), grid)
    is_torch = image is not None and image.target == TORCH
    return "none" if request.method == "weights" or (request.method == "parts" and is_torch) else "mpi"


def _residency(models: Sequence[Model], region: str) -> list[str]:
    """Return the residency of the result: that of all models, or the Region itself if some differ."""
    residencies = {model.job.residency for model in models}
    return list(residencies.pop()) if len(residencies) == 1 else [region]


def _instance_type(request: MergeRequest, grid: GridSettings) -> str:
    """Return the instance type. Merging needs no accelerator; an explicit type is checked as in every manifest."""
    if request.instance_type:
        return request.instance_type
    instance_type = next((name for name in grid.allowed_instance_types() if accelerators(name, 1) == 0), None)
    if instance_type is None:
        allowed = ", ".join(grid.allowed_instance_types())
        text = f"A merge runs without accelerators, and all instance types of this grid have some: {allowed}."
        raise UsageError(text, "Add one to instance_types in grid.yaml, or give --instance-type.")
    return instance_type


def _data(local_model: Model | None, request: MergeRequest, region: str) -> dict[str, Any]:
    """Return the channels with the data of the merge: those of --data, or of the first job of the Region."""
    channels = {"average": ("train", "validation"), "ensemble": ("validation",)}.get(request.method, ())
    if channels and request.step and request.step.statistics == "average":
        channels = ("validation",)
    if request.data:
        return {name: {"uri": f"{request.data.rstrip('/')}/{name}/", "input_mode": "FastFile"} for name in channels}
    if channels and local_model is None:
        text = f"None of the jobs trained in {region}, so that the validation data there is not known."
        raise UsageError(text, "Give a folder with train/ and validation/: --data s3://BUCKET/FOLDER.")
    data = {}
    for name in channels:
        channel = local_model.job.inputs.get(name) if local_model else None
        if channel is None:
            text = f"{str(local_model).capitalize()} has no channel {name}, which the method {request.method} reads."
            raise UsageError(text, "Give a folder with train/ and validation/: --data s3://BUCKET/FOLDER.")
        _check_readable(name, channel, local_model)
        data[name] = _read(channel)
    return data


def _check_readable(name: str, channel: Channel, model: Model | None) -> None:
    """Raise an error for data that SageMaker only streams: a merge reads files, several times, by another format."""
    if channel.attributes:
        form = "an augmented manifest"
    elif channel.content_type == RECORDIO or channel.record_wrapper != "None":
        form = "RecordIO"
    else:
        return
    text = f"The channel {name} of {model} is {form}, which can only be streamed, and a merge reads files."
    raise UsageError(
        text, "Give a folder with train/ and validation/ in TFRecords or images: --data s3://BUCKET/FOLDER."
    )


def _read(channel: Channel) -> dict[str, Any]:
    """Return the settings of a channel that one host reads as files."""
    if channel.file_system:
        return {"file_system": channel.file_system, "type": channel.type, "path": channel.path}
    mode = "FastFile" if channel.input_mode == "Pipe" else channel.input_mode
    return {"uri": channel.uri, "input_mode": mode, **({"manifest": True} if channel.manifest else {})}


def _hyperparameters(models: Sequence[Model], request: MergeRequest) -> dict[str, str]:
    """Return the hyperparameters that the merge reads (training_container/merge/options.py)."""
    hyperparameters = {names.IMAGE_PROGRAM: names.MERGE_PROGRAM, names.MERGE_METHOD: request.method}
    hyperparameters["merge_count"] = str(len(models))
    if request.method == "average":
        hyperparameters["merge_statistics_images"] = str(request.statistics_images)
        hyperparameters |= shape_of(
            models[0]
        )  # the merge ignores it; lines that begin with the average are compared with it
    if request.step:
        hyperparameters |= request.step.hyperparameters
    if request.folders:
        hyperparameters["merge_layout"] = "folders"
    return hyperparameters


def _metrics(count: int) -> list[str]:
    """Return the metrics that the merge prints (training_container/merge/evaluation.py)."""
    of_parts = [f"part_{number}_{kind}" for number in range(min(count, _SHOWN_PARTS)) for kind in ("top1", "loss")]
    return ["validation_top1", "validation_loss", "validation_top5", "best_part_top1", *of_parts]
