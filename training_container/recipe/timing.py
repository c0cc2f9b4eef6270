"""Timing: measures the parts of a step: waiting for input, computing, and averaging over ranks.

*Input* is the time that the loop waits for a batch, in every step. Batches are prepared in the background, so this is
the time that input adds to a step. *Compute* and *allreduce* overlap: each gradient is averaged as soon as it is
available, so they cannot be measured separately. Therefore some steps are sampled: they run in separate parts, with the
average after all gradients, and wait for the device after each part. A sampled step has the same result as any other.
The sum of its parts may exceed the mean step time. The difference is the time that overlapping saves, so averaging
costs other steps at most the measured time. It includes waiting for the slowest rank. All measurements are those of
rank 0.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
INPUT, COMPUTE, ALLREDUCE = "input_seconds", "compute_seconds", "allreduce_seconds"


@dataclass(kw_only=True)
class _Sums:
    begun: float | None = None
    steps: int = 0
    samples: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def per_step(self, now: float) -> dict[str, float]:
        if self.begun is None or not self.steps:
            return {}
        means = {"step_seconds": (now - self.begun) / self.steps, INPUT: self.seconds.get(INPUT, 0.0) / self.steps}
        if self.samples:
            means |= {part: self.seconds.get(part, 0.0) / self.samples for part in (COMPUTE, ALLREDUCE)}
        return means


class StepTimes:
    """Sums the times of parts of steps. Every step calls `input` once; a sampled one also `compute` and `allreduce`.

    Args:
        clock: A function that returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._line, self._epoch = _Sums(), _Sums()

    @contextlib.contextmanager
    def input(self) -> Iterator[None]:
        """Measure the wait for a batch. A step begins with it."""
        now = self._clock()
        for sums in (self._line, self._epoch):
            sums.begun = now if sums.begun is None else sums.begun
        with self._part(INPUT):
            yield
        for sums in (self._line, self._epoch):
            sums.steps += 1

    @contextlib.contextmanager
    def compute(self) -> Iterator[None]:
        """Measure computation in a sampled step. It may be called several times per step."""
        with self._part(COMPUTE):
            yield

    @contextlib.contextmanager
    def allreduce(self) -> Iterator[None]:
        """Measure averaging over ranks in a sampled step. It must be called once per step."""
        with self._part(ALLREDUCE):
            yield
        for sums in (self._line, self._epoch):
            sums.samples += 1

    def of_line(self) -> dict[str, float]:
        """Return the mean seconds per step since the last call, by the metrics' names, and restart the sums.

        compute_seconds and allreduce_seconds are missing if no step was sampled, and all are if there was no step.
        """
        now = self._clock()
        means = self._line.per_step(now)
        self._line = _Sums(begun=now)
        return means

    def of_epoch(self) -> dict[str, float]:
        """Return the mean seconds per step of the epoch, and stop the clocks until the next step begins.

        Call it before validation and checkpoints, so that their time is not included.
        """
        means = self._epoch.per_step(self._clock())
        self._line, self._epoch = _Sums(), _Sums()
        return means

    @contextlib.contextmanager
    def _part(self, name: str) -> Iterator[None]:
        started = self._clock()
        yield
        seconds = self._clock() - started
        for sums in (self._line, self._epoch):
            sums.seconds[name] = sums.seconds.get(name, 0.0) + seconds


def groups(batches: Iterator[Item], size: int, times: StepTimes) -> Iterator[list[Item]]:
    """Yield the batches of each step, `size` or fewer at the end of the epoch, and measure the wait for them."""
    while True:
        try:
            with times.input():
                group = [next(batches), *islice(batches, size - 1)]
        except StopIteration:
            return
        yield group
