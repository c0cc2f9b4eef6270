"""Background: writes one checkpoint at a time in a thread, while the training continues.

Before, the caller copies all values that the training changes. The thread is not a daemon, so a process that ends
regularly, or by SIGTERM, ends after its last checkpoint is written. `train` waits with `finish` for the trainer and for
scripts, so that an error fails the job.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType


class _Write(threading.Thread):
    """A write that is pending until `finish` has returned or raised its error."""

    def __init__(self, write: Callable[[], object]) -> None:
        super().__init__(name="checkpoint")
        self._write = write
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._write()
        except Exception as error:  # noqa: BLE001  # raised in the thread that trains
            self.error = error
            print(f"{error} The training fails at its next checkpoint or at its end.", flush=True)
        finally:
            del self._write  # and the copied values


_pending: list[_Write] = []


def start(write: Callable[[], object]) -> None:
    """Run a function in a thread.

    Raises:
        Exception: The error of the previous write, for which this function waits. The function is not run.
    """
    finish()
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end_after_write)
    _pending.append(_Write(write))
    _pending[0].start()


def finish() -> None:
    """Wait until no write is pending.

    Raises:
        Exception: The error of the last write, once.
    """
    if _pending:
        _pending[0].join()
        if error := _pending.pop().error:
            raise error


def _end_after_write(number: int, _frame: FrameType | None) -> None:
    """End this process as the signal does in a process without a handler, but not within a write."""
    with suppress(Exception):  # it is printed
        finish()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
