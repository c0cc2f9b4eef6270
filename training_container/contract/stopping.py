"""Stopping: SageMaker sends SIGTERM to `train` on every host, and the ranks write a checkpoint and stop together.

`train` cannot forward the signal to mpirun, which would kill the ranks a second later. It creates a file instead. The
ranks of its host check for the file between steps, and the trainer combines the answers of all ranks. The ranks of a
script that does not check for the file get the signal (launcher/stop_limit.py).
"""

import os
import signal
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType

STOP_FILE = "TRAINGRID_STOP_FILE"
LAUNCHER = "TRAINGRID_LAUNCHER_PID"
# The exit status of a shell for a program that SIGTERM terminated: 128 + 15.
STOPPED_STATUS = 143


def ended_file(stop_file: Path, local_rank: int) -> Path:
    """Return the file that exists once a rank of this host has ended after the stop."""
    return stop_file.with_name(f"{stop_file.name}-ended-{local_rank}")


def polled_file(stop_file: Path) -> Path:
    """Return the file that exists once a rank of this host has checked for the stop file: it needs no signal."""
    return stop_file.with_name(f"{stop_file.name}-polled")


def ask_for_stop() -> bool:
    """Return True if the training was asked to stop, for a script, whose ranks then get no signal."""
    _record_that_it_asks()
    return is_stopping()


@cache
def _record_that_it_asks() -> None:
    if STOP_FILE in os.environ:
        with suppress(OSError):  # a signal is then sent all the same
            polled_file(Path(os.environ[STOP_FILE])).touch()


def is_stopping() -> bool:
    """Return True if the training was asked to stop."""
    stop_file = os.environ.get(STOP_FILE)
    return stop_file is not None and Path(stop_file).exists()


class StoppedError(Exception):
    """Training was asked to stop, has written a checkpoint, and stopped."""


class StopRequestedError(Exception):
    """A rank was asked to stop during validation; the caller that catches this writes a checkpoint if needed."""


class StopRequest:
    """Detects a request to stop this rank, by its launcher's stop file or by SIGTERM to the rank itself."""

    def __init__(self, stop_file: Path | None) -> None:
        self._stop_file = stop_file
        self._has_signalled = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def is_requested(self) -> bool:
        """Return True after the first request."""
        return self._has_signalled or (self._stop_file is not None and self._stop_file.exists())

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._has_signalled = True


def end_with(launcher: int, seconds: float = 1.0) -> None:
    """End this process when its launcher has ended for any reason, because its output would be lost.

    Only rank 0 does this; mpirun and Gloo then end the other ranks.

    Args:
        launcher: The process id of `train` on this host.
        seconds: The time between checks.
    """

    def watch() -> None:
        while True:
            time.sleep(seconds)
            try:
                os.kill(launcher, 0)  # signal 0 only checks that the process exists
            except ProcessLookupError:
                os._exit(1)

    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()
