"""A line of progress every so many seconds, on rank 0. Imports no TensorFlow."""

import time
from collections.abc import Callable, Mapping

from training_container.trainer import metric_lines
from training_container.trainer.progress import Progress


class ProgressLines:
    """Decides when a line of progress is due, and makes it.

    Args:
        seconds: from one line to the next; 0: never.
        epochs: of the whole training.
        clock: returns seconds.
    """

    def __init__(self, seconds: float, epochs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._epochs, self._clock = seconds, epochs, clock
        self._last = clock()
        self._losses: tuple[float, int] = (0.0, 0)

    def due(self) -> bool:
        """Return whether a line is due. Cheap: the loop asks before every step."""
        return self._seconds > 0 and self._clock() - self._last >= self._seconds

    def line(self, progress: Progress, steps_per_epoch: int | None, values: Mapping[str, float]) -> str:
        """Return the line, and wait for the next.

        Args:
            progress: where the training stands, with the epoch's loss so far.
            steps_per_epoch: None where it is not known yet.
            values: what else is to be said, under names of metric_lines (StepTimes.of_line, Gpu.use).
        """
        self._last = self._clock()
        shown: dict[str, float] = {"step": progress.step} | self._loss(progress)
        if seconds := values.get("step_seconds"):
            # By the time of steps: since the last line there may have been a validation.
            shown["recent_images_per_second"] = progress.ranks * progress.batch_size / seconds
        steps = f"{progress.step_in_epoch} of {steps_per_epoch or 'an unknown number of'} steps"
        return f"Epoch {progress.epoch + 1} of {self._epochs}, {steps}: {metric_lines.pairs(shown | dict(values))}"

    def _loss(self, progress: Progress) -> dict[str, float]:
        """Return the mean loss of the steps since the last line, as far as they are of this epoch."""
        total, steps = self._losses if self._losses[1] <= progress.loss_steps else (0.0, 0)
        self._losses = (progress.loss_sum, progress.loss_steps)
        if progress.loss_steps == steps:
            return {}
        return {"recent_loss": (progress.loss_sum - total) / (progress.loss_steps - steps)}
