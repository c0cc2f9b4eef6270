"""Launcher checks: rejects lines whose launcher cannot start their program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.grid.image import TORCH
from traingrid.job.launchers import launcher_of
from traingrid.manifest.line import is_algorithm, is_ours
from traingrid.manifest.values import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.model import Grid

    Problem = tuple[str, object, RefusedError]

_OTHER_FRAMEWORKS = ("tensorflow", "mxnet", "sklearn", "xgboost", "chainer")


def wrong_launcher(settings: Mapping[str, Any], grid: Grid) -> Iterator[Problem]:
    """Yield the errors of a line's launcher, or of the grid's if the line has none.

    Args:
        settings: The line's valid settings.
        grid: The grid.
    """
    if "algorithm" in settings or is_algorithm(settings, grid):
        if settings.get("launcher", "mpi") != "mpi":
            reason = "an algorithm starts its own processes"
            yield "launcher", settings["launcher"], RefusedError(reason, "Remove launcher.")
        return
    launcher = launcher_of(settings, grid.job)
    if launcher == "mpi":
        yield from _mpi(settings, grid)
        return
    if is_ours(settings, grid) and "source" not in settings:
        step = "Write launcher mpi, or source and entry_point with a script."
        yield "launcher", launcher, RefusedError("the image's own trainer uses Horovod, which mpi starts", step)
    if "mpi_options" in settings:
        reason = f"only mpirun reads them, and the launcher is {launcher}"
        yield "mpi_options", settings["mpi_options"], RefusedError(reason, "Remove mpi_options, or write launcher mpi.")
    yield from _none(settings) if launcher == "none" else _torchrun(settings, grid)


def _mpi(settings: Mapping[str, Any], grid: Grid) -> Iterator[Problem]:
    image = grid.images.get(settings.get("image", grid.job.image))
    if image is not None and image.build and image.target == TORCH:
        reason = f"the image with target: {TORCH} has neither MPI nor a built-in trainer"
        step = "Write launcher torchrun or none, and source and entry_point with a script."
        yield "launcher", "mpi", RefusedError(reason, step)


def _none(settings: Mapping[str, Any]) -> Iterator[Problem]:
    if settings.get("processes_per_host", 1) > 1:
        step = "Remove processes_per_host, or write launcher mpi or torchrun."
        reason = "the launcher none runs the program once on each host"
        yield "processes_per_host", settings["processes_per_host"], RefusedError(reason, step)


def _torchrun(settings: Mapping[str, Any], grid: Grid) -> Iterator[Problem]:
    if settings.get("entry_point", "").endswith(".sh"):
        # AWS's toolkit refuses it, too: _create_command of torch_distributed.py.
        step = "Name a .py file, or write launcher none and call torchrun in the script."
        yield "entry_point", settings["entry_point"], RefusedError("torchrun starts Python programs only", step)
    image = grid.images.get(settings.get("image", grid.job.image))
    if image is not None and image.framework in _OTHER_FRAMEWORKS:
        reason = f"torchrun is part of PyTorch, and the image is AWS's container of {image.framework}"
        step = "Name an image with framework: pytorch, or your own."
        yield "launcher", "torchrun", RefusedError(reason, step)
