"""Spot instances of a training job: the wait for them, and their loss.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training-status.html has the statuses of a job whose
instances are interrupted. Its containers get SIGTERM and 120 seconds
(https://github.com/aws/sagemaker-training-toolkit/issues/173), as those of a job that is stopped.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from localcloud.sagemaker.job import TrainingJob
from localcloud.sagemaker.request import hosts

if TYPE_CHECKING:
    from localcloud.faults.faults import Faults

LOOK_SECONDS = 0.1
"""The interval between two looks at the spot capacity; it is derived from a plan that may be replaced at any time."""


class InterruptionError(Exception):
    """The instances of a job were interrupted."""


class WaitExceededError(Exception):
    """A job is not complete within its MaxWaitTimeInSeconds."""


class SpotInstances:
    """The spot instances of one training job. A job on demand always has its instances.

    Attributes:
        deadline: The time of `time.monotonic` at which MaxWaitTimeInSeconds end; infinite for a job on demand. They are
            "the amount of time spent waiting for Spot capacity plus the amount of time the job can run" (API reference,
            StoppingCondition), so they begin with the job.
        lost: Set when the instances are lost; cleared when a new run begins.
    """

    def __init__(self, job: TrainingJob, faults: "Faults") -> None:
        self._job, self._faults = job, faults
        self._types = sorted({host.instance_type for host in hosts(job.request)})
        self.deadline = time.monotonic() + job.max_wait_seconds
        self.lost = threading.Event()

    @property
    def are_available(self) -> bool:
        """Return True if the job can have its instances now."""
        if not self._job.is_spot:
            return True
        return all(self._faults.has_spot_capacity(self._job.region, kind) for kind in self._types)

    def wait(self) -> bool:
        """Wait until the job can have its instances.

        Returns:
            False if the job is being stopped.

        Raises:
            WaitExceededError: If the job has waited too long.
        """
        while not self.are_available:
            if time.monotonic() >= self.deadline:
                raise WaitExceededError
            if self._job.stop_requested.wait(LOOK_SECONDS):
                return False
        return True

    @contextmanager
    def watched(self, on_loss: Callable[[], None]) -> Iterator[None]:
        """Watch the instances while the block runs.

        Args:
            on_loss: Called once from another thread, after `lost` is set.
        """
        self.lost.clear()
        if not self._job.is_spot:
            yield
            return
        end_event = threading.Event()
        arguments = (end_event, on_loss)
        watch = threading.Thread(target=self._watch, args=arguments, name=f"spot-{self._job.name}", daemon=True)
        watch.start()
        try:
            yield
        finally:
            end_event.set()
            watch.join()

    def _watch(self, ended: threading.Event, on_loss: Callable[[], None]) -> None:
        while self.are_available:
            if ended.wait(LOOK_SECONDS):
                return
        self.lost.set()
        on_loss()
