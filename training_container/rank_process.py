"""What every rank's process has, whatever it runs: a number, ties to its launcher, and a way to report a failure."""

import os
import socket
import sys
import traceback
from types import TracebackType

from training_container.failure import report_line
from training_container.stopping import LAUNCHER, end_with


def begin() -> None:
    """Make this process a rank's: failures are reported to the launcher, and rank 0 ends when its launcher has."""
    sys.excepthook = report_and_end
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # both are text files here
    if LAUNCHER in os.environ and rank_number() == 0:
        end_with(int(os.environ[LAUNCHER]))


def rank_number() -> int:
    """Return this rank's number before Horovod knows it, from what Open MPI or Horovod's launcher sets."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("HOROVOD_RANK") or 0)


def report_and_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an error to the launcher, on one line of standard error, and end this process with exit status 1."""
    traceback.print_exception(kind, error, trace)
    host = os.environ.get("SM_CURRENT_HOST", socket.gethostname())
    print(report_line(rank_number(), host, error, trace), file=sys.stderr, flush=True)
    sys.stdout.flush()
    # No orderly exit: Horovod's would wait for ranks that wait for this one.
    os._exit(1)
