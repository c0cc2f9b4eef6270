"""Progress lines: decides when rank 0 logs the progress of an epoch, and formats the line."""

import time
from collections.abc import Callable, Mapping

from training_container.recipe import metric_lines
from training_container.recipe.progress import Progress


class ProgressLines:
    """Decides when a progress line is due, and formats it.

    Args:
        seconds: The interval between lines; 0 disables them.
        epochs: The epochs of the whole training.
        clock: A function that returns seconds.
    """

    def __init__(self, seconds: float, epochs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._epochs, self._clock = seconds, epochs, clock
        self._printed_at = clock()
        self._losses: tuple[int, float, int] = (0, 0.0, 0)

    def is_due(self) -> bool:
        """Return True if a line is due. It is fast, because the loop calls it before every step."""
        return self._seconds > 0 and self._clock() - self._printed_at >= self._seconds

    def line(self, progress: Progress, steps_per_epoch: int | None, values: Mapping[str, float]) -> str:
        """Return the line, and restart the interval.

        Args:
            progress: The progress, with the epoch's loss so far.
            steps_per_epoch: Steps in the epoch; None if unknown.
            values: Additional values, by names of metric_lines (StepTimes.of_line, Gpu.use).
        """
        self._printed_at = self._clock()
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
