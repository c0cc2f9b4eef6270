"""Leftovers: terminates processes that a script started and did not wait for, when its rank ends.

mpirun and Horovod's Gloo launcher wait until the rank's output is closed, but a leftover keeps it open. Without this
module, such a training job would run, and be charged, until max_runtime. The process that the launcher starts becomes
three:

| process | task |
|---|---|
| watched | the launcher's child: forwards signals, and exits with the rank's status, or with 0 after a stop |
| keeper | the rank's parent: adopts all orphans below it, and kills them when the rank or `watched` ends |
| rank | runs the script |

The kernel assigns orphans to the keeper regardless of their session, process group or environment
(PR_SET_CHILD_SUBREAPER, prctl(2)). This requires no privileges. `watched` is a separate process because launchers kill
whole process groups: the keeper has its own session, so it survives that signal and can react to it.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import psutil

from training_container.contract.rank_variables import position
from training_container.contract.stopping import STOP_FILE, ended_file, is_stopping
from training_container.launcher.exit_description import exit_phrase
from training_container.ranks.marked_output import MarkedOutput

GRACE_SECONDS = 1.0
"""Time for the leftovers of a successful rank to end by themselves, as Python's resource tracker does."""

_KILLING_SECONDS = 10.0
# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_PASSED_ON = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
_UNWATCHED = signal.SIGALRM
"""The signal that the keeper receives when `watched` has ended; nothing else sends it."""
_HEARD = _PASSED_ON | {signal.SIGCHLD, _UNWATCHED}


def keep(output: MarkedOutput | None = None) -> None:
    """Fork, and continue as the rank in a new process whose leftovers end with it; the caller becomes `watched`.

    Call this before any thread is started. It has no effect on systems other than Linux.

    Args:
        output: Marks the output of the rank and its leftovers, and reports its death, for a launcher that does neither.
    """
    if sys.platform != "linux":
        return
    if output:
        output.open()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a launcher may leave it ignored, which would discard exit statuses
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    watched = os.getpid()
    if keeper := os.fork():
        if output:
            output.forward()
        status = _after_stop(_wait_for(keeper))
        if output:
            output.close(1 if status is None else os.waitstatus_to_exitcode(status))
        _end_as(status)
    if output:
        output.use()
    os.setsid()
    _end_with_parent(watched, _UNWATCHED)
    adopt_orphans()
    keeper = os.getpid()
    if rank := os.fork():
        os.setpgid(rank, rank)
        status = _wait_for(rank)
        _end_leftovers(status)
        _end_as(status)
    os.setpgid(0, 0)  # both processes do it, to avoid a race: a script's `kill 0` must not reach the keeper
    _end_with_parent(keeper, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def adopt_orphans() -> None:
    """On Linux, become the parent of every descendant process that loses its own parent."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(spared: int | None = None) -> None:
    """Send SIGKILL to all descendants until none is left, or for ten seconds.

    It reaps all children, so call it only when no other code needs a child's exit status.

    Args:
        spared: The process id of a child that continues.
    """
    deadline = time.monotonic() + _KILLING_SECONDS
    while _has_children() and time.monotonic() < deadline:
        descendants = [process for process in psutil.Process().children(recursive=True) if process.pid != spared]
        if not descendants:
            return
        for process in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.01)


def _after_stop(status: int | None) -> int | None:
    """Return a rank's waitpid(2) status, which is 0 for any end after a stop: launchers kill all ranks if one fails.

    So a rank that ends at once, because it has nothing to save, does not interrupt the checkpoint of another one, nor
    does a rank that fails because the other one has stopped before it. mpirun also kills all ranks if one ends without
    MPI_Finalize, so this process waits for the other ranks of its host.
    """
    if not is_stopping():
        return status
    if status:
        exit_text = exit_phrase(os.waitstatus_to_exitcode(status))
        print(f"Rank {position(os.environ).rank} {exit_text} after the stop.", flush=True)
    _wait_for_other_ranks()
    return 0


def _wait_for_other_ranks() -> None:
    """Wait until all ranks of this host have ended, or until the launcher ends them."""
    stop_file = Path(os.environ[STOP_FILE])
    rank_position = position(os.environ)
    with contextlib.suppress(OSError):
        ended_file(stop_file, rank_position.local_rank).touch()
        while not all(ended_file(stop_file, local_rank).exists() for local_rank in range(rank_position.local_size)):
            if signal.sigtimedwait(_PASSED_ON, 0.1) is not None:
                return


def _wait_for(child: int) -> int | None:
    """Forward signals to a child until it ends. Return its waitpid(2) status, or None if `watched` has ended.

    Only the child itself gets them: a data loader fails if another program terminates one of its processes.
    """
    while True:
        number = signal.sigwait(_HEARD)
        if number == _UNWATCHED:
            return None
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # several processes may have ended, including adopted orphans
            if ended[0] == child:
                return ended[1]


def _end_leftovers(status: int | None) -> None:
    """Let leftovers of a successful rank end by themselves for a moment, then report the rest and kill them."""
    deadline = time.monotonic() + (GRACE_SECONDS if status == 0 else 0.0)
    while _has_children() and time.monotonic() < deadline:
        time.sleep(0.02)
    descendants = psutil.Process().children(recursive=True) if status == 0 else []
    if commands := list(filter(None, map(_command, descendants))):
        first_commands = "; ".join(command[:80] for command in commands[:3])
        rank = position(os.environ).rank
        print(
            f"Rank {rank} has ended; killing {len(commands)} process(es) that it left running: {first_commands}",
            flush=True,
        )
    end_descendants()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # the process has ended meanwhile
        return ""


def _has_children() -> bool:
    """Reap the children that have ended. Return True if others are running."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _end_as(status: int | None) -> NoReturn:
    """End this process with another one's status, or by the same signal, because launchers report signals."""
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with contextlib.suppress(OSError):  # SIGKILL's action cannot be set
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(code)


def _end_with_parent(parent: int, number: signal.Signals) -> None:
    """Make the kernel signal this process when its parent ends. Send the signal now if the parent has already ended."""
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
