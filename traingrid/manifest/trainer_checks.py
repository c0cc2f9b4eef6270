"""Trainer checks: the hyperparameters of the training image's own trainer, by the trainer's own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid import names
from traingrid.algorithms.trainer_config import ALIASES, Config, HyperparameterError, Problem
from traingrid.manifest.line import hyperparameters, is_ours
from traingrid.manifest.values import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.model import Grid
    from traingrid.manifest.algorithm_checks import WrongEntry
    from traingrid.manifest.line import Line

_LIST = "The trainer's hyperparameters are in docs/hyperparameters.md."
_IN_GRID = "It is from `job` in grid.yaml; correct it there and deploy, or set it on the line."


def wrong_hyperparameters(line: Line, grid: Grid) -> Iterator[WrongEntry]:
    """Yield the errors of a line that trains with the trainer of the image that the deployment builds.

    An image that a user has pushed may have another version of the trainer, whose hyperparameters are not known.

    Args:
        line: The line, whose fields are valid.
        grid: The grid, whose default hyperparameters apply to the line.
    """
    image = grid.images.get(line.settings.get("image", grid.job.image))
    if image is None or not image.build or not is_ours(line.settings, grid) or "source" in line.settings:
        return
    given = hyperparameters(line.settings, grid)
    if given.get(names.IMAGE_PROGRAM, "trainer") != "trainer":
        return
    own = {name: text for name, text in given.items() if not name.startswith("sagemaker_")}
    try:
        Config.from_hyperparameters(own)
    except HyperparameterError as error:
        of_line = line.settings.get("hyperparameters", {})
        for problem in error.problems:
            yield "hyperparameters", problem.name, problem.given, _refused(problem, of_line)


def _refused(problem: Problem, of_line: Mapping[str, str]) -> RefusedError:
    is_of_line = any(ALIASES.get(name, name) == problem.name for name in of_line)
    default = _LIST if is_of_line else _IN_GRID
    return RefusedError(problem.reason, problem.next_step or default)
