"""How a stop travels: SageMaker sends SIGTERM to `train` on every host, and the ranks checkpoint and end together.

`train` cannot hand the signal to mpirun, which would kill the ranks a second later. It creates a file instead, which
the ranks of its host look for between steps; the trainer asks all ranks whether any was told to stop.
"""

import os
import signal
import threading
from pathlib import Path
from types import FrameType

STOP_FILE = "TRAINGRID_STOP_FILE"
LAUNCHER = "TRAINGRID_LAUNCHER_PID"
# What a shell reports for a program that SIGTERM ended: 128 + 15.
STOPPED_STATUS = 143


class StoppedError(Exception):
    """Training was asked to stop, wrote a checkpoint, and stopped."""


class StopRequestedError(Exception):
    """A rank was told to stop while all validated; whoever catches it writes the checkpoint, if one is needed."""


class StopRequest:
    """Whether this rank was told to stop, by its launcher's stop file or by a SIGTERM of its own."""

    def __init__(self, stop_file: Path | None) -> None:
        self._stop_file = stop_file
        self._signalled = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def requested(self) -> bool:
        """Return True from the first request on."""
        return self._signalled or (self._stop_file is not None and self._stop_file.exists())

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True


def end_with(launcher: int, seconds: float = 1.0) -> None:
    """End this process when its launcher is gone, however that ended: nobody would read what it trains.

    Rank 0 does this; mpirun and Gloo then end the other ranks.

    Args:
        launcher: the process id of `train` on this host.
        seconds: time between looks.
    """

    def watch() -> None:
        pause = threading.Event()
        while not pause.wait(seconds):
            try:
                os.kill(launcher, 0)
            except ProcessLookupError:
                os._exit(1)

    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()
