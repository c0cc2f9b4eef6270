"""Profiles: writes the profile of the steps that a line asks for (`profile`), where `traingrid tensorboard` finds it.

Example with PyTorch:
    from trainer import profiles

    with profiles.torch_profiler() as profiler:
        for batch in batches:
            ...
            profiler.step()                    # after each step

Rank 0 writes the profile; for other ranks, and for a line without `profile`, the profiler does nothing. With Keras:
`tf.keras.callbacks.TensorBoard(ranks.current().folders.tensorboard, profile_batch=profiles.steps() or 0)`.
"""

import os
import time
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from training_container.contract.profiled_steps import ProfiledSteps
from training_container.script_api import ranks
from training_container.trainer.reporting.event_upload import EventUpload


class Profiler(Protocol):
    """The method of torch.profiler.profile that a script calls."""

    def step(self) -> object:
        """Mark the end of a step."""


class NoProfiler:
    """A profiler that does nothing."""

    def __enter__(self) -> Self:
        """Return this profiler."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing."""

    def step(self) -> None:
        """Do nothing."""


def steps() -> tuple[int, int] | None:
    """Return the first and the last step to profile, counted from 1; None if this rank writes no profile.

    Raises:
        ContractError: The job's variable is malformed.
    """
    profiled = ProfiledSteps.from_environment(os.environ)
    return (profiled.first, profiled.last) if profiled and ranks.current().is_main else None


def torch_profiler(completed_steps: int = 0, **options: Any) -> AbstractContextManager[Profiler]:
    """Return a profiler of PyTorch, which profiles the line's steps and writes the profile when the last one ends.

    Args:
        completed_steps: The number of steps before the first one in the context, for a resumed training.
        options: Other arguments of torch.profiler.profile, such as record_shapes.

    Raises:
        ContractError: The job's variable is malformed.
    """
    profiled = steps()
    if profiled is None or completed_steps >= profiled[1]:
        return NoProfiler()
    import torch.profiler as torch_profile  # noqa: PLC0415  # seconds; only scripts with PyTorch call this

    first, last = (number - completed_steps - 1 for number in profiled)  # PyTorch counts from 0

    def action(step: int) -> Any:
        if step == last:
            return torch_profile.ProfilerAction.RECORD_AND_SAVE
        if first <= step < last:
            return torch_profile.ProfilerAction.RECORD
        return torch_profile.ProfilerAction.WARMUP if step == first - 1 else torch_profile.ProfilerAction.NONE

    profiler: AbstractContextManager[Profiler] = torch_profile.profile(
        schedule=action, on_trace_ready=_write, **options
    )
    return profiler


def _write(profiler: Any) -> None:
    """Write a profile as a run of TensorBoard's profile plugin, and copy it to S3.

    The plugin reads HOST.trace.json.gz in `plugins/profile/RUN`, and PyTorch's own plugin any *.pt.trace.json.gz.
    """
    import torch.profiler as torch_profile  # noqa: PLC0415  # as above

    place = ranks.current()
    board = place.folders.tensorboard
    run = board / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S", time.gmtime())
    host = os.environ.get("SM_CURRENT_HOST", "algo-1")
    torch_profile.tensorboard_trace_handler(str(run), worker_name=f"{host}-{place.rank}", use_gzip=True)(profiler)
    EventUpload(board).sync()
