"""Script end: ends the process of a script that has failed, as Python does, but within a time limit.

A script's open files, and the exit functions of its loggers, often have what explains the failure. Python writes and
calls them at a regular exit, which may never come: Horovod waits for ranks that wait for this one.
"""

import atexit
import faulthandler
import gc
import io
import os
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import NoReturn

from training_container.ranks import rank_process

SECONDS = 10
"""The limit; then the process prints where it is, and ends."""
_HOROVOD = "horovod."
_STDERR = 2


def report_and_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> NoReturn:
    """Report an error to the launcher, call exit functions, write open files, and exit with status 1."""
    try:
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=_STDERR)  # the script may have replaced sys.stderr
        rank_process.report(kind, error, trace)
        _leave_out_horovod()
        atexit._run_exitfuncs()  # there is no public function; Python's own multiprocessing calls it, too
        _flush_files()
    finally:
        os._exit(1)


def end_stopped() -> None:
    """End a script of Horovod after a stop, as Python does, but without waiting for ranks that have ended before.

    Other scripts return to Python's own exit.
    """
    if not any(name.startswith(_HOROVOD) for name in sys.modules):
        return
    try:
        for thread in threading.enumerate():  # a thread may still save; the limit of a stop ends this
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()
        _leave_out_horovod()
        atexit._run_exitfuncs()
        _flush_files()
    finally:
        os._exit(0)


def _leave_out_horovod() -> None:
    """Unregister Horovod's exit function (horovod/common/basics.py, `atexit.register(self.shutdown)`)."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_HOROVOD) and (basics := getattr(module, "_basics", None)) is not None:
            atexit.unregister(basics.shutdown)


def _flush_files() -> None:
    """Write the buffers of all open files; text first, because its buffer is that of a binary file."""
    # isinstance() would ask a proxy of an object that may not exist any more.
    files = [file for file in gc.get_objects() if issubclass(type(file), io.TextIOWrapper | io.BufferedWriter)]
    for file in sorted(files, key=lambda file: isinstance(file, io.BufferedWriter)):
        with suppress(OSError, ValueError):  # the disk is full, or the file is closed
            file.flush()
