"""Rounds API: runs the rounds of a specification in a deployed grid, and returns the last global model."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.api.base_lines import lines_of, manifest_of, problems_of
from traingrid.api.grid_rounds import GridRounds
from traingrid.api.rounds_problems import merge_problems, program_problems
from traingrid.api.source_folders import packed
from traingrid.api.steps import POLL_SECONDS, run_steps
from traingrid.api.submit import resolve_initial_models
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.folder_layouts import wrong_folders
from traingrid.manifest.hardware_warnings import line_warnings, warning_sentences
from traingrid.manifest.json_lines import json_lines
from traingrid.manifest.line import uses_grid_image
from traingrid.manifest.parse import parse
from traingrid.manifest.spec_file import SpecError
from traingrid.rounds.journal import rounds_journal
from traingrid.rounds.rounds import Rounds
from traingrid.rounds.spec_file import ROUNDS_FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from traingrid.api.control_plane import ControlPlane
    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line
    from traingrid.manifest.spec_file import SpecFile
    from traingrid.rounds.journal import GlobalModel
    from traingrid.rounds.rounds import RoundsProgress
    from traingrid.rounds.spec import RoundsSpec
    from traingrid.rounds.state import Round

logger = logging.getLogger(__name__)


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
    problems = [*program_problems(file.spec, lines, plane.deployment)]
    problems = problems or [*merge_problems(file.spec, lines, plane.deployment, grid)]
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
