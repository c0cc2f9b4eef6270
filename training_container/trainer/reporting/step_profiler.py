"""Step profiler: writes TensorFlow's profile of some steps of rank 0 for TensorBoard (`profile` of a line)."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf

from training_container.contract.profiled_steps import ProfiledSteps


class StepProfiler:
    """Profiles the steps of one training. A failure of the profiler is printed, and the training continues.

    TensorBoard reads `plugins/profile/` below the folder of events
    (https://www.tensorflow.org/guide/profiler#collect_performance_data).

    Args:
        steps: The steps; None to profile none.
        folder: The folder of TensorBoard's events.
        on_written: Called when the profile is written.
    """

    def __init__(self, steps: ProfiledSteps | None, folder: Path, on_written: Callable[[], None]) -> None:
        self._steps, self._folder, self._on_written = steps, folder, on_written
        self._runs = self._has_run = False

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Run a step, and profile it if it is one of the steps.

        Args:
            number: The number of the step in the whole training, from 1.
        """
        if self._steps is None or number not in self._steps:
            yield
            return
        self._start()
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            yield
        if number == self._steps.last:
            self._stop()

    def end(self, steps: int) -> None:
        """Write a profile whose last step was not reached, and print a message if the first one was not reached.

        Args:
            steps: The number of steps of the whole training.
        """
        self._stop()
        if self._steps and not self._has_run and steps < self._steps.first:
            first_step = self._steps.first
            print(f"There is no profile: the training ended after step {steps}, before step {first_step}.")

    def _start(self) -> None:
        if self._has_run:
            return
        self._has_run = True
        try:
            tf.profiler.experimental.start(str(self._folder))
            self._runs = True
        except (tf.errors.OpError, OSError) as error:
            print(f"The profiler cannot start: {error}. Training continues without a profile.")

    def _stop(self) -> None:
        if not self._runs:
            return
        self._runs = False
        tf.test.experimental.sync_devices()  # a GPU may still compute the last step
        try:
            tf.profiler.experimental.stop()
        except (tf.errors.OpError, OSError) as error:
            print(f"The profile cannot be written to {self._folder}: {error}. Training continues without it.")
        else:
            self._on_written()
