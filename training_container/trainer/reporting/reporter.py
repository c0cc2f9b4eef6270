"""Reporter: reports a training while it runs, in the log and in TensorBoard. Only rank 0 has one."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from training_container.contract.profiled_steps import ProfiledSteps
from training_container.contract.training_job import Folders
from training_container.trainer.checkpoints.progress import Progress
from training_container.trainer.config import Config
from training_container.trainer.reporting import metric_lines
from training_container.trainer.reporting.gpu import Gpu
from training_container.trainer.reporting.step_profiler import StepProfiler
from training_container.trainer.reporting.tensorboard import TensorBoard
from training_container.trainer.timing import StepTimes


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


class ProgressLines:
    """Decides when a progress line is due, and formats it.

    Args:
        seconds: The interval between lines; 0 disables them.
        epochs: The epochs of the whole training.
        clock: A function that returns seconds.
    """

    def __init__(self, seconds: float, epochs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._epochs, self._clock = seconds, epochs, clock
        self._last = clock()
        self._losses: tuple[int, float, int] = (0, 0.0, 0)

    def is_due(self) -> bool:
        """Return True if a line is due. It is fast, because the loop calls it before every step."""
        return self._seconds > 0 and self._clock() - self._last >= self._seconds

    def line(self, progress: Progress, steps_per_epoch: int | None, values: Mapping[str, float]) -> str:
        """Return the line, and restart the interval.

        Args:
            progress: The progress, with the epoch's loss so far.
            steps_per_epoch: Steps in the epoch; None if unknown.
            values: Additional values, by names of metric_lines (StepTimes.of_line, Gpu.use).
        """
        self._last = self._clock()
        metrics: dict[str, float] = {"step": progress.step} | self._loss(progress)
        if seconds := values.get("step_seconds"):
            # From the time of steps, because the time since the last line may include a validation.
            metrics["recent_images_per_second"] = progress.ranks * progress.batch_size / seconds
        steps = f"{progress.step_in_epoch} of {steps_per_epoch or 'an unknown number of'} steps"
        return f"Epoch {progress.epoch + 1} of {self._epochs}, {steps}: {metric_lines.pairs(metrics | dict(values))}"

    def _loss(self, progress: Progress) -> dict[str, float]:
        """Return the mean loss of the steps since the last line that belong to this epoch."""
        epoch, total, steps = self._losses
        if epoch != progress.epoch:
            total, steps = 0.0, 0
        self._losses = (progress.epoch, progress.loss_sum, progress.loss_steps)
        if progress.loss_steps == steps:
            return {}
        return {"recent_loss": (progress.loss_sum - total) / (progress.loss_steps - steps)}
