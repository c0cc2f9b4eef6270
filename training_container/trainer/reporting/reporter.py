"""Reporter: reports a training while it runs, in the log and in TensorBoard. Only rank 0 has one."""

import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager

from training_container.contract.profiled_steps import ProfiledSteps
from training_container.contract.training_job import Folders
from training_container.recipe import metric_lines
from training_container.recipe.config import Config
from training_container.recipe.gpu import Gpu
from training_container.recipe.progress import Progress
from training_container.recipe.progress_lines import ProgressLines
from training_container.recipe.timing import StepTimes
from training_container.trainer.reporting.step_profiler import StepProfiler
from training_container.trainer.reporting.tensorboard import TensorBoard


class Reporter:
    """The log and TensorBoard events of one training, on rank 0.

    Args:
        folders: The folders, with that of TensorBoard's events.
        config: The interval of progress lines, and the destination of events.
        continues: True if the training continues from a checkpoint; then no earlier events are removed.
    """

    def __init__(self, folders: Folders, config: Config, *, continues: bool) -> None:
        if config.clear_log and not continues:
            shutil.rmtree(folders.tensorboard, ignore_errors=True)
        self._board = TensorBoard(folders.tensorboard, config.tensorboard_s3)
        self._lines = ProgressLines(config.progress_seconds, config.epochs)
        self._gpu = Gpu(local_rank=0)
        steps = ProfiledSteps.from_environment(os.environ)
        self._profiler = StepProfiler(steps, folders.tensorboard, self._board.sync)

    def step(self, progress: Progress, steps_per_epoch: int | None, times: StepTimes) -> None:
        """Print a progress line if it is due."""
        if self._lines.is_due():
            print(self._lines.line(progress, steps_per_epoch, times.of_line() | self._gpu.use()))

    def profiled(self, step: int) -> AbstractContextManager[None]:
        """Return the context in which a step runs, which profiles it if the line asks for it.

        Args:
            step: The number of the step in the whole training, from 1.
        """
        return self._profiler.step(step)

    def end_profile(self, steps: int) -> None:
        """Write an unfinished profile at the end of a training, which had a number of steps."""
        self._profiler.end(steps)

    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Print an epoch's metrics, and write them to TensorBoard."""
        metrics = {**metrics, **self._gpu.use()}
        print(metric_lines.line(epoch, metrics))
        self._board.log(epoch, metrics)

    def sync(self) -> None:
        """Copy TensorBoard's new events to S3, which may take some time."""
        self._board.sync()
