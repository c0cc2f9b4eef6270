"""Trainer check: the hyperparameters of the training image's own trainer, by the trainer's own rules."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.algorithms.trainer_config import ALIASES, Config, HyperparameterError, framework_of
from traingrid.manifest.line import hyperparameters, image_of, uses_own_trainer
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.algorithms.trainer_config import HyperparameterProblem
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line

_LIST = "The trainer's hyperparameters are in docs/hyperparameters.md."
_IN_GRID = "It is from `job` in grid.yaml; correct it there and deploy, or set it on the line."


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of a line that trains with the trainer of the image that the deployment builds.

    An image that a user has pushed may have another version of the trainer, whose hyperparameters are not known.
    """
    settings, grid = line.settings, rules.grid
    image = image_of(settings, grid)
    if image is None or not image.build or not uses_own_trainer(settings, grid):
        return
    values = hyperparameters(settings, grid)
    if values.get(names.IMAGE_PROGRAM, "trainer") != "trainer":
        return
    own_names = {ALIASES.get(name, name) for name in settings.hyperparameters}
    framework = framework_of(settings.applied_to(grid.job).launcher)
    for problem in _problems(tuple(values.items()), framework):
        next_step = (problem.next_step or _LIST) if problem.name in own_names else _IN_GRID
        yield Problem("hyperparameters", problem.given, problem.reason, next_step, entry=problem.name)


@lru_cache(maxsize=1024)
def _problems(values: tuple[tuple[str, str], ...], framework: str) -> Sequence[HyperparameterProblem]:
    """Return the trainer's problems with hyperparameters, which many lines of a manifest have in common."""
    try:
        own_values = {name: text for name, text in values if not name.startswith("sagemaker_")}
        Config.from_hyperparameters(own_values, framework)
    except HyperparameterError as error:
        return error.problems
    return ()
