"""Rounds API: runs the rounds of a specification in a deployed grid, and returns the last global model."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.api.base_lines import lines_of, manifest_of, problems_of
from traingrid.api.grid_rounds import GridRounds
from traingrid.api.source_folders import packed
from traingrid.api.steps import POLL_SECONDS, run_steps
from traingrid.api.submit import resolve_initial_models
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.grid.residency import is_resident
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.folder_layouts import wrong_folders
from traingrid.manifest.hardware_warnings import line_warnings, warning_sentences
from traingrid.manifest.json_lines import json_lines
from traingrid.manifest.line import NO_SUBMISSION, is_algorithm, job_of_line, uses_grid_image, uses_own_trainer
from traingrid.manifest.parse import parse
from traingrid.manifest.spec_file import SpecError
from traingrid.merge.line import merge_line, region_of
from traingrid.merge.models import Model, check_method, shape_of
from traingrid.rounds.journal import rounds_journal
from traingrid.rounds.rounds import Rounds
from traingrid.rounds.spec_file import ROUNDS_FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike

    from traingrid.api.control_plane import ControlPlane
    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line
    from traingrid.manifest.spec_file import Problem, SpecFile
    from traingrid.rounds.journal import GlobalModel
    from traingrid.rounds.rounds import RoundsProgress
    from traingrid.rounds.spec import RoundsSpec
    from traingrid.rounds.state import Round

logger = logging.getLogger(__name__)
_TOP5, _TOP = "validation_top5", 5


@dataclass(frozen=True, kw_only=True)
class RoundsResult:
    """The result of rounds.

    Attributes:
        rounds: Each round with its contributions and its global model.
    """

    name: str
    rounds: tuple[Round, ...]

    @property
    def model(self) -> GlobalModel:
        """The last global model."""
        model = self.rounds[-1].model
        assert model is not None  # noqa: S101  # for the type checker: all rounds have ended
        return model


@dataclass(frozen=True, kw_only=True)
class OpenRounds:
    """The rounds of a valid specification.

    Attributes:
        upload: Uploads the packed source folders.
    """

    spec: RoundsSpec
    rounds: Rounds
    upload: Callable[[], None]

    def run(
        self, report: Callable[[RoundsProgress], object] = lambda _progress: None, poll: float = POLL_SECONDS
    ) -> RoundsResult:
        """Run until all rounds have ended, and return them.

        Args:
            report: Receives the progress after each step.
            poll: The seconds between two steps.

        Raises:
            TraingridError: A Region is missing, a merge has failed, or AWS refuses a request.
        """
        if not self.rounds.begin().rounds:
            self.upload()
        state = run_steps(self.rounds.step, report, poll).state
        return RoundsResult(name=self.spec.name, rounds=tuple(state.rounds.values()))


def open_rounds(
    plane: ControlPlane,
    spec: str | PathLike[str] | Mapping[str, Any],
    announce: Callable[[str], None] = logger.info,
    warn: Callable[[str], None] = logger.warning,
) -> OpenRounds:
    """Read and check a specification; upload and submit nothing.

    Args:
        spec: The path of a YAML file, or its content.
        announce: Receives a sentence for each copy, submission and cancel.
        warn: Receives a sentence for each hardware warning of the lines.

    Raises:
        UsageError: The specification is invalid; the text has all errors with line and key.
    """
    file = ROUNDS_FORMAT.open(spec, "rounds")
    content = manifest_of(file.document, [{**file.spec.recipe, **line} for line in file.spec.lines])
    packed_manifest = packed(file.path, plane.deployment, content)
    rows = lines_of(packed_manifest.content)
    journal = rounds_journal(plane.storage, plane.deployment.manifest_bucket, file.spec.name)
    lines = _checked_lines(file, rows, plane.deployment, is_first=journal.first_entry() is None)
    is_script = bool(lines[0].settings.source)
    grid = GridRounds(
        plane=plane,
        announce=announce,
        spec=file.spec,
        method="weights" if is_script else "average",
        image=file.spec.merge.image or _image_of_lines(lines, plane.deployment),
    )
    problems = [*_program_problems(file.spec, lines, plane.deployment)]
    problems = problems or [*_merge_problems(file.spec, lines, plane.deployment, grid)]
    if problems:
        raise SpecError(tuple(f"{file.place(key)}: {text}" for key, text in problems))
    for sentence in warning_sentences(enumerate((line_warnings(line, plane.deployment.grid) for line in lines), 1)):
        warn(sentence)
    rounds = Rounds(spec=file.spec, lines=rows, journal=journal, grid=grid)
    return OpenRounds(spec=file.spec, rounds=rounds, upload=lambda: packed_manifest.upload(announce))


def _checked_lines(
    file: SpecFile[RoundsSpec], rows: Sequence[Mapping[str, Any]], deployment: Deployment, *, is_first: bool
) -> list[Line]:
    """Return the lines of the first round, checked as by `traingrid submit`.

    Args:
        is_first: True if the first round has not begun, so that its initial model and the folders are checked, too.

    Raises:
        SpecError: With all errors, by line and key of the file.
    """
    spec = file.spec
    of_round: dict[str, Any] = {"hp.epochs": spec.epochs, "hp.seed": spec.seed}
    if is_first and spec.init_from:
        of_round["init_from"] = spec.init_from
    lines: list[Line] = []
    try:
        lines = parse(json_lines([{**row, **of_round} for row in rows]).encode(), deployment)
        if is_first:
            resolve_initial_models(lines, deployment)
        errors = wrong_folders(lines, deployment) if is_first else []
    except ManifestError as error:
        errors = list(error.errors)
    of_lines = problems_of(file, [line_error for line_error in errors if line_error.field != "init_from"])
    of_model = problems_of(file, [line_error for line_error in errors if line_error.field == "init_from"], "init_from")
    if problems := tuple(dict.fromkeys((*of_lines, *of_model))):
        raise SpecError(problems)
    return lines


def _image_of_lines(lines: Sequence[Line], deployment: Deployment) -> str:
    """Return the alias of the image of the lines, if it is the grid's training image, which has the merge."""
    settings = lines[0].settings
    return settings.image or "" if uses_grid_image(settings, deployment.grid) else ""


def _program_problems(spec: RoundsSpec, lines: Sequence[Line], deployment: Deployment) -> Iterator[Problem]:
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
    if is_script and spec.stop:
        yield ("stop",), "the merge of scripts evaluates nothing, so that no value can end the rounds. Remove it."
    for name in ("data", "statistics") if is_script else ():
        if name in spec.merge.model_fields_set:
            text = "the merge of scripts reads their weights only"
            yield (
                ("merge", name),
                f"{text}. Remove it.",
            )


def _merge_problems(
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
    models = [
        Model(
            submission=NO_SUBMISSION,
            job=job_of_line(line, number, deployment, NO_SUBMISSION),
            archive=S3Uri("models", f"{number}.tar.gz"),
            label=f"line {number} in {line.region}",
        )
        for number, line in enumerate(lines)
    ]
    if spec.stop and spec.stop.metric == _TOP5 and not any(_reports_top5(model) for model in models):
        text = "a trainer reports it only with more than five classes, so that it cannot end the rounds"
        yield ("stop", "metric"), f"{text}. Write `metric: validation_top1`."
    try:
        check_method(models, grid.method)
        request = grid.request(1, "")
        region = region_of(models, request, deployment.grid)
        local = next((model for model in models if model.job.region == region), None)
        merge_line(models, request, S3Uri("models", "0"), 0, region=region, local=local, deployment=deployment)
    except UsageError as error:
        next_step = error.next_step.replace("--region", "region").replace("--data", "data")
        yield ("merge",), f"{error.what} {next_step}"


def _reports_top5(model: Model) -> bool:
    """Return True if the network has enough classes, as its hyperparameters say (trainer/validation.py)."""
    classes = shape_of(model)["classes"]
    return not classes.isdecimal() or int(classes) > _TOP


def _may_go_everywhere(line: Line, lines: Sequence[Line], merge_region: str, deployment: Deployment) -> bool:
    """Return True if a model of a line may be in all Regions of the rounds; a global model has the data of each."""
    regions = {merge_region, *(peer.region for peer in lines)}
    own = line.settings.residency or ()
    return all(is_resident(region, own) and deployment.grid.may_hold(region, line.region) for region in regions)
