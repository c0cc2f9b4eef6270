"""Curves: the metric histories of the jobs that a user compares."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.errors import TraingridError, UsageError
from traingrid.metrics.curves import last_curves
from traingrid.metrics.history import MetricHistory
from traingrid.ui.rows import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.metrics.points import MetricPoint

MOST_JOBS = 8
READ_SECONDS = 10
"""The time between two reads of the curves of jobs that train, whose new values come every 30 seconds."""
_KEPT_HISTORIES = 32


class Curves:
    """Reads metric histories. Each read of a job returns all of its values, and requests only the new ones."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._lock = plane, threading.Lock()
        self._histories: OrderedDict[str, tuple[MetricHistory, threading.Lock]] = OrderedDict()

    def use(self, plane: ControlPlane) -> None:
        """Use another control plane of the same grid from the next read on."""
        with self._lock:
            self._plane = plane
            self._histories.clear()

    def read(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the curves of jobs, a sentence for each job whose values cannot be read, and when to read again.

        Args:
            keys: The jobs, each as SUBMISSION/INDEX.

        Raises:
            UsageError: There are too many jobs, or one is not of this form.
        """
        if len(keys) > MOST_JOBS:
            raise UsageError(f"{len(keys)} jobs were given.", f"Compare at most {MOST_JOBS} jobs.")
        curves: list[dict[str, Any]] = []
        errors = []
        for key in dict.fromkeys(keys):
            try:
                curves += _curves_of(key, self._points(key))
            except (TraingridError, ClientError, BotoCoreError) as error:
                errors.append(f"{key}: {error}")
        return {"curves": curves, "errors": errors, "again_seconds": READ_SECONDS}

    def _points(self, key: str) -> list[MetricPoint]:
        submission, _, index = key.partition("/")
        if not submission or not index.isdecimal() or key_of(submission, int(index)) != key:
            raise UsageError(f"{key!r} is not a job.", "Write SUBMISSION/INDEX.")
        history, lock = self._history(key, submission)
        with lock:  # a history keeps its position, so only one thread may read it
            return history.read(int(index))

    def _history(self, job_key: str, submission: str) -> tuple[MetricHistory, threading.Lock]:
        """Return the history of a job, which remembers how far it has been read, and the lock to hold while reading it.

        Forget the history of the job that was shown longest ago.
        """
        plane = self._plane
        with self._lock:
            if job_key not in self._histories:
                history = MetricHistory(plane.deployment, plane.ledger, plane.storage, submission)
                self._histories[job_key] = history, threading.Lock()
            self._histories.move_to_end(job_key)
            while len(self._histories) > _KEPT_HISTORIES:
                self._histories.popitem(last=False)
            return self._histories[job_key]


def _curves_of(key: str, points: Sequence[MetricPoint]) -> list[dict[str, Any]]:
    """Return a curve for each metric of a job's last attempt that has reported values."""
    return [
        {
            "job": key,
            "metric": metric,
            "epochs": [point.epoch for point in of_metric],
            "times": [round(point.time.timestamp(), 1) for point in of_metric],
            "values": [point.value for point in of_metric],
        }
        for metric, of_metric in last_curves(points).items()
    ]
