"""Training progress: reads metrics from log lines by their regular expressions, and measures the pace of epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.metrics.patterns import MetricPatterns

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_EPOCH = 1e9
"""The greatest number of seconds that the ledger stores."""


class MetricProgress:
    """The last value of each metric.

    Args:
        metrics: Metric name to a regular expression whose first group is the value, in SageMaker's form.

    Attributes:
        values: Metric name to its last value, for the metrics that were seen.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        self._patterns = MetricPatterns(metrics)
        self.values: dict[str, float] = {}

    def read(self, line: str) -> bool:
        """Read the metrics in a log line; return True if it contains any."""
        values = dict(self._patterns.matches(line))
        self.values |= {name: value for name, value in values.items() if value is not None}
        return bool(values)


class EpochPace:
    """The pace of a training, measured between two reads of its log.

    The start of the container, the download of data and the epochs before a checkpoint do not count: the measurement
    begins with the last epoch of the first read, which for a child that was restarted has the whole log so far.

    Attributes:
        seconds: The seconds that an epoch takes; 0 until two reads have had different epochs.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begin: tuple[float, float] | None = None
        self._epoch = 0.0

    def read(self, epoch: float | None, now: float) -> None:
        """Take the last epoch of a read of the log.

        Args:
            epoch: The last value of the metric `epoch`; None if the log has none yet.
            now: The time of the read in seconds.
        """
        if epoch is None or epoch == self._epoch:
            return
        if self._begin is None or epoch < self._epoch:  # a restarted training continues from its checkpoint
            self._begin = epoch, now
        else:
            first, at = self._begin
            self.seconds = min(max(now - at, 0.0) / (epoch - first), _LONGEST_EPOCH)
        self._epoch = epoch
