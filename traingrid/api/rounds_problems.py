"""Rounds problems: the reasons why lines cannot be trained in rounds or merged, by key, before any cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.grid.residency import is_resident
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.json_lines import json_lines
from traingrid.manifest.line import NO_SUBMISSION, is_algorithm, job_of_line, uses_own_trainer
from traingrid.manifest.parse import parse
from traingrid.merge.line import merge_line, region_of
from traingrid.merge.models import Model, check_method, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.api.grid_rounds import GridRounds
    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line
    from traingrid.manifest.spec_file import Problem
    from traingrid.rounds.spec import RoundsSpec

_TOP5, _TOP = "validation_top5", 5
_KEYS = {"instance_type": "instance_type", "image": "image", "inputs": "data"}
"""The keys of `merge` from which fields of its line follow."""


def program_problems(spec: RoundsSpec, lines: Sequence[Line], deployment: Deployment) -> Iterator[Problem]:
    """Yield the reasons why the lines have no program whose weights can be averaged."""
    is_script = bool(lines[0].settings.source)
    for number, line in enumerate(lines):
        if is_algorithm(line.settings, deployment.grid):
            text = "rounds average weights, and an algorithm of SageMaker does not save them"
            yield ("lines", number), f"{text}. Write a script, or remove image and algorithm."
        elif bool(line.settings.source) != is_script:
            text = "rounds train one network, but some lines have a script and others the image's own trainer"
            yield ("lines", number), f"{text}. Write `source` and `entry_point` into the recipe, or remove them."
        elif not is_script and not uses_own_trainer(line.settings, deployment.grid):
            text = "the image has no trainer of the grid, whose weights rounds average"
            yield ("lines", number), f"{text}. Write `source` and `entry_point`, or remove image."
        elif not is_script and line.settings.applied_to(deployment.grid.job).launcher != "mpi":
            text = "rounds average networks of the image's trainer for TensorFlow, and this one is for PyTorch"
            yield ("lines", number), f"{text}. Write a script (`source`, `entry_point`), or use another image."
    if is_script and spec.stop:
        yield ("stop",), "the merge of scripts evaluates nothing, so that no value can end the rounds. Remove it."
    for name in ("data", "statistics") if is_script else ():
        if name in spec.merge.model_fields_set:
            text = "the merge of scripts reads their weights only"
            yield (
                ("merge", name),
                f"{text}. Remove it.",
            )


def merge_problems(
    spec: RoundsSpec, lines: Sequence[Line], deployment: Deployment, grid: GridRounds
) -> Iterator[Problem]:
    """Yield the reasons why the models of the lines cannot be merged, or the global model not be used by all of them.

    The merge checks the same before each round, but then the round has cost its training.
    """
    for number, line in enumerate(lines):
        if not _may_go_everywhere(line, lines, spec.merge.region, deployment):
            areas = ", ".join(line.settings.residency or deployment.grid.regions[line.region].residency)
            text = f"its residency allows the models of {line.region} only in {areas}, and rounds send them"
            yield (
                ("lines", number),
                f"{text} to all Regions of the file. Remove those outside, or train this line alone.",
            )
    if len({line.settings.residency for line in lines}) > 1:
        text = "the residency of the lines differs, so that a merge could not leave its Region"
        yield ("lines",), f"{text}. Write one `residency` into the recipe."
    models = _models(lines, deployment)
    if spec.stop and spec.stop.metric == _TOP5 and not any(map(_reports_top5, models)):
        text = "a trainer reports it only with more than five classes, so that it cannot end the rounds"
        yield ("stop", "metric"), f"{text}. Write `metric: validation_top1`."
    try:
        check_method(models, grid.method)
        yield from _line_problems(models, grid, deployment)
    except UsageError as error:
        step = error.next_step
        if "--method" in step:  # which rounds do not have
            step = "Rounds average one network: write the value once, into the recipe."
        for option, key in (("--region", "region"), ("--data", "data"), ("--image", "image")):
            step = step.replace(option, key)
        yield ("merge",), f"{error.what} {step}"


def _models(lines: Sequence[Line], deployment: Deployment) -> list[Model]:
    """Return the models that a first round will have."""
    return [
        Model(
            submission=NO_SUBMISSION,
            job=job_of_line(line, number, deployment, NO_SUBMISSION),
            archive=S3Uri("models", f"{number}.tar.gz"),
            label=f"line {number} in {line.region}",
        )
        for number, line in enumerate(lines)
    ]


def _line_problems(models: Sequence[Model], grid: GridRounds, deployment: Deployment) -> Iterator[Problem]:
    """Yield the errors of the line of the first merge, which is parsed as the intake will do.

    Raises:
        UsageError: There is no line for these models.
    """
    request = grid.request(1, "")
    region = region_of(models, request, deployment.grid)
    local = next((model for model in models if model.job.region == region), None)
    folder = S3Uri(
        names.data_bucket(deployment.grid.name, deployment.account_of(region), region), f"{names.MERGE_PREFIX}0"
    )
    line = merge_line(models, request, folder, 0, region=region, local=local, deployment=deployment)
    try:
        parse(json_lines([line]).encode(), deployment)
    except ManifestError as error:
        for line_error in error.errors:
            key = _KEYS.get(line_error.field.partition(".")[0])
            value = f"{line_error.value} " if line_error.value else ""
            yield ("merge", key) if key else ("merge",), f"{value}{line_error.reason}. {line_error.next_step}"


def _reports_top5(model: Model) -> bool:
    """Return True if the network has enough classes, by its hyperparameters (trainer/validation.py)."""
    classes = shape_of(model)["classes"]
    return not classes.isdecimal() or int(classes) > _TOP


def _may_go_everywhere(line: Line, lines: Sequence[Line], merge_region: str, deployment: Deployment) -> bool:
    """Return True if a model of a line may be in all Regions of the rounds; a global model has the data of each."""
    regions = {merge_region, *(peer.region for peer in lines)}
    own = line.settings.residency or ()
    return all(is_resident(region, own) and deployment.grid.may_hold(region, line.region) for region in regions)
