"""Epoch pace: measures the seconds that an epoch of a training takes."""

_MAX_EPOCH_SECONDS = 1e9
"""The greatest number of seconds that the ledger stores."""


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

    def restart(self) -> None:
        """Begin the measurement anew, because the training has no instances; the last pace stays until then."""
        self._begin = None

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
            self.seconds = min(max(now - at, 0.0) / (epoch - first), _MAX_EPOCH_SECONDS)
        self._epoch = epoch
