"""Background: writes one checkpoint at a time in a thread, while the training continues.

Before, the caller copies all values that the training changes. The thread is not a daemon, so a process that ends
regularly ends after its last checkpoint is written, with the exit status 1 if nothing has raised its error.

A SIGTERM that the script does not handle ends the process after the write, too. The thread ends it then, because Python
calls a handler only in the main thread, between two instructions, and that may be waiting for a rank that is lost.
Without a write, the signal has its default action.
"""

import atexit
import ctypes
import os
import signal
import sys
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
            _end_if_asked()


_pending: list[_Write] = []
_signals: list[int] = []
"""The two ends of a pipe with the numbers of signals, into which Python writes at once (signal.set_wakeup_fd)."""


def start(write: Callable[[], object]) -> None:
    """Run a function in a thread.

    Raises:
        Exception: The error of the previous write, for which this function waits. The function is not run.
    """
    finish()
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _delay_sigterm()
    _pending.append(_Write(write))
    _pending[0].start()


def finish() -> None:
    """Wait until no write is pending.

    Raises:
        Exception: The error of the last write, once.
    """
    if _pending:
        _pending[0].join()
        if threading.current_thread() is threading.main_thread():
            _restore_sigterm()
        if error := _pending.pop().error:
            raise error


def _delay_sigterm() -> None:
    if not _signals:
        _signals.extend(os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
    _read_signals()  # of an earlier write
    if (previous := signal.set_wakeup_fd(_signals[1], warn_on_full_buffer=False)) != -1:
        signal.set_wakeup_fd(previous)  # of asyncio, whose main thread waits for signals
    signal.signal(signal.SIGTERM, _end_after_write)


def _restore_sigterm() -> None:
    if signal.getsignal(signal.SIGTERM) is _end_after_write:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _signals and (current := signal.set_wakeup_fd(-1)) != _signals[1]:
        signal.set_wakeup_fd(current)


def _end_after_write(number: int, _frame: FrameType | None) -> None:
    """End this process as the signal does in a process without a handler, but not within a write."""
    with suppress(Exception):  # it is printed
        finish()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _end_if_asked() -> None:
    """Give SIGTERM its default action in this thread, and end the process if the signal has come during the write."""
    if signal.getsignal(signal.SIGTERM) is _end_after_write:
        # Python's own function for this requires the main thread.
        ctypes.pythonapi.PyOS_setsig(signal.SIGTERM, ctypes.c_void_p(signal.SIG_DFL))
        if signal.SIGTERM in _read_signals():
            os.kill(os.getpid(), signal.SIGTERM)


def _read_signals() -> bytes:
    with suppress(BlockingIOError):
        return os.read(_signals[0], 1 << 16)
    return b""


def _forget() -> None:
    """In a forked process, for example of a data loader: leave the write and its signals to the first process."""
    _restore_sigterm()
    while _signals:
        os.close(_signals.pop())
    _pending.clear()


def _fail() -> None:
    """Fail at the end of a process that has not asked for the error of its last write."""
    if _pending and _pending[0].error:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # Python ignores errors of exit functions


atexit.register(_fail)  # when this module is imported, so that it is called after most other exit functions
os.register_at_fork(after_in_child=_forget)
