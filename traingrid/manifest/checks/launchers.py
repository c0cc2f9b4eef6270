"""Launcher check: rejects lines whose launcher cannot start their program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid import names
from traingrid.grid.image import TORCH
from traingrid.manifest.line import image_of, is_algorithm, uses_own_trainer
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.image import Image
    from traingrid.grid.model import GridSettings
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.fields import LineSettings
    from traingrid.manifest.line import Line

_OTHER_FRAMEWORKS = ("tensorflow", "mxnet", "sklearn", "xgboost", "chainer")


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of a line's launcher, or of the grid's if the line has none."""
    settings, grid = line.settings, rules.grid
    if is_algorithm(settings, grid):
        if settings.launcher not in (None, "mpi"):
            yield Problem("launcher", settings.launcher, "an algorithm starts its own processes", "Remove launcher.")
        return
    launcher = settings.applied_to(grid.job).launcher
    if launcher == "mpi":
        yield from _mpi(settings, grid)
        return
    merges = launcher == "none" and settings.hyperparameters.get(names.IMAGE_PROGRAM) == names.MERGE_PROGRAM
    if uses_own_trainer(settings, grid) and not merges:
        yield from _own_trainer(launcher, image_of(settings, grid))
    if settings.mpi_options is not None:
        reason = f"only mpirun reads them, and the launcher is {launcher}"
        yield Problem("mpi_options", settings.mpi_options, reason, "Remove mpi_options, or write launcher mpi.")
    yield from _check_without_launcher(settings) if launcher == "none" else _torchrun(settings, grid)


def _mpi(settings: LineSettings, grid: GridSettings) -> Iterator[Problem]:
    image = image_of(settings, grid)
    if image is not None and image.build and image.target == TORCH:
        reason = f"the image with target: {TORCH} has neither MPI nor Horovod"
        yield Problem(
            "launcher", "mpi", reason, "Write launcher torchrun, which starts scripts and the image's trainer."
        )


def _own_trainer(launcher: str, image: Image | None) -> Iterator[Problem]:
    """Yield an error if the launcher does not start the trainer of an image of the deployment; others are unknown."""
    step = "or source and entry_point with a script."
    if launcher == "none":
        reason = "the image's own trainer connects its hosts by a launcher"
        yield Problem("launcher", launcher, reason, f"Write launcher mpi, with target: {TORCH} torchrun, {step}")
    elif image is not None and image.build and image.target != TORCH:
        reason = "the image's own trainer uses Horovod, which mpi starts"
        yield Problem("launcher", launcher, reason, f"Write launcher mpi, an image with target: {TORCH}, {step}")


def _check_without_launcher(settings: LineSettings) -> Iterator[Problem]:
    if (settings.processes_per_host or 1) > 1:
        step = "Remove processes_per_host, or write launcher mpi or torchrun."
        reason = "the launcher none runs the program once on each host"
        yield Problem("processes_per_host", settings.processes_per_host, reason, step)


def _torchrun(settings: LineSettings, grid: GridSettings) -> Iterator[Problem]:
    if (settings.entry_point or "").endswith(".sh"):
        # AWS's toolkit refuses it, too: _create_command of torch_distributed.py.
        step = "Name a .py file, or write launcher none and call torchrun in the script."
        yield Problem("entry_point", settings.entry_point, "torchrun starts Python programs only", step)
    image = image_of(settings, grid)
    if image is not None and image.framework in _OTHER_FRAMEWORKS:
        reason = f"torchrun is part of PyTorch, and the image is AWS's container of {image.framework}"
        step = "Name an image with framework: pytorch, or your own."
        yield Problem("launcher", "torchrun", reason, step)
