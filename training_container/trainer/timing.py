"""Where the time of a step goes: waiting for input, computing, averaging over ranks.

How it is measured. *Input* is the time that the loop waits for a batch, in every step; batches are prepared in the
background, so this is what input costs and not what it does. *Compute* and *allreduce* run at the same time: Horovod
averages each gradient as soon as it is there, and no clock can tell the two apart. So now and then one step is made in
parts, the average only after all gradients, and the device is waited for after each part. Such a sampled step is exact
like any other. The sum of its parts may be more than the mean step; the difference is what the overlap saves, so that
averaging costs other steps at most what it took there. Its time is also that of waiting for the slowest rank. All of it
is rank 0's own. Imports no TensorFlow.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

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
    """Sums up the parts of steps. Every step enters `input` once; a sampled one also `compute` and `allreduce`.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._line, self._epoch = _Sums(), _Sums()

    @contextlib.contextmanager
    def input(self) -> Iterator[None]:
        """Measure the wait for a batch; a step begins here."""
        now = self._clock()
        for sums in (self._line, self._epoch):
            sums.begun = now if sums.begun is None else sums.begun
        with self._part(INPUT):
            yield
        for sums in (self._line, self._epoch):
            sums.steps += 1

    @contextlib.contextmanager
    def compute(self) -> Iterator[None]:
        """Measure computation of a sampled step; there may be several parts of it."""
        with self._part(COMPUTE):
            yield

    @contextlib.contextmanager
    def allreduce(self) -> Iterator[None]:
        """Measure the average over ranks of a sampled step, once a step."""
        with self._part(ALLREDUCE):
            yield
        for sums in (self._line, self._epoch):
            sums.samples += 1

    def of_line(self) -> dict[str, float]:
        """Return mean seconds per step since this was last asked, under the metrics' names, and begin anew.

        compute_seconds and allreduce_seconds are missing where no step was sampled; all are where no step was made.
        """
        now = self._clock()
        means, self._line = self._line.per_step(now), _Sums(begun=now)
        return means

    def of_epoch(self) -> dict[str, float]:
        """Return mean seconds per step of the epoch, and stop the clocks until the next step begins.

        Call it before validation and checkpoints, whose time is not a step's.
        """
        means = self._epoch.per_step(self._clock())
        self._line, self._epoch = _Sums(), _Sums()
        return means

    @contextlib.contextmanager
    def _part(self, name: str) -> Iterator[None]:
        begun = self._clock()
        yield
        seconds = self._clock() - begun
        for sums in (self._line, self._epoch):
            sums.seconds[name] = sums.seconds.get(name, 0.0) + seconds
