"""Rank process: the rank's number, its connection to the launcher, and its failure report, for trainer and scripts."""

import faulthandler
import os
import socket
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from training_container.contract.rank_variables import MARK_OUTPUT, position
from training_container.contract.stopping import LAUNCHER, end_with
from training_container.contract.training_job import TrainingJob
from training_container.launcher.failure import report_line
from training_container.launcher.silence import STACK_SIGNAL

FailureHook = Callable[[type[BaseException], BaseException, TracebackType | None], object]
"""A function that Python calls with an uncaught exception (sys.excepthook)."""


class LaunchError(RuntimeError):
    """The launcher has started other ranks than those of the job."""


def begin(on_failure: FailureHook | None = None) -> None:
    """Initialize a rank's process: it reports failures and its stack to the launcher, and ends when `train` has ended.

    With MPI only rank 0 does, because other ranks may be on other hosts, and mpirun ends them.

    Args:
        on_failure: Reports an error and ends the process; by default `report_and_end`.
    """
    sys.excepthook = on_failure or report_and_end
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # both are text files here
    faulthandler.register(STACK_SIGNAL, all_threads=False)
    if LAUNCHER in os.environ and (rank_number() == 0 or MARK_OUTPUT in os.environ):
        end_with(int(os.environ[LAUNCHER]))


def rank_number() -> int:
    """Return this rank's number from the variables of its launcher, before any library is initialized."""
    return position(os.environ).rank


def check_position(job: TrainingJob) -> None:
    """Check that the launcher has started the job's number of ranks, and this one on its host.

    Raises:
        LaunchError: It has not.
    """
    actual, processes = position(os.environ), job.launch.processes_per_host
    first_rank = job.hosts.index(job.current_host) * processes
    if actual.size != job.world_size or actual.rank != first_rank + actual.local_rank:
        raise LaunchError(
            f"The launcher has started rank {actual.rank} of {actual.size} on {job.current_host} instead of rank "
            f"{first_rank + actual.local_rank} of {job.world_size}: {len(job.hosts)} host(s) x {processes} process(es) "
            "per host. Check that no variable of the line sets RANK, WORLD_SIZE or PET_*."
        )


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an error to the launcher in one line on standard error."""
    traceback.print_exception(kind, error, trace)
    host = os.environ.get("SM_CURRENT_HOST", socket.gethostname())
    print(report_line(rank_number(), host, error, trace), file=sys.stderr, flush=True)
    sys.stdout.flush()


def report_and_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> NoReturn:
    """Report an error to the launcher, and exit with status 1."""
    report(kind, error, trace)
    # No regular exit: Horovod would wait for ranks that are waiting for this one.
    os._exit(1)
