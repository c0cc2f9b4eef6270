"""Leftovers: processes that a script starts and does not wait for. They end when its rank ends.

A leftover keeps the rank's output open, and mpirun and Horovod's Gloo launcher wait for the end of that output: without
this module the training job would run, and cost, until max_runtime. The process that the launcher starts becomes three:

| process | what it does |
|---|---|
| watched | is the launcher's child; passes signals on, and ends as the rank ended |
| keeper | is the rank's parent and adopts every orphan below it; kills them when the rank ends, or `watched` does |
| rank | runs the script |

The kernel gives orphans to the keeper whatever their session, process group or environment is (PR_SET_CHILD_SUBREAPER,
prctl(2)). No privilege is needed. `watched` is a process apart because launchers kill whole process groups: the keeper
is in a session of its own, and so outlives that signal and acts on it.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import psutil

GRACE_SECONDS = 1.0
"""How long leftovers of a rank that has ended well may take to end by themselves, as Python's resource tracker does."""

_KILLING_SECONDS = 10.0
# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_PASSED_ON = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
_UNWATCHED = signal.SIGALRM
"""What the keeper gets when `watched` has ended; nothing else sends it."""
_HEARD = _PASSED_ON | {signal.SIGCHLD, _UNWATCHED}


def keep() -> None:
    """Continue as the rank, in a new process whose leftovers end with it; the calling process becomes `watched`.

    Call this before any thread is started. Without effect where the kernel is not Linux.
    """
    if sys.platform != "linux":
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as a launcher may hand it down, it would take the statuses
    former = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    watched = os.getpid()
    if keeper := os.fork():
        _end_as(_wait_for(keeper, os.kill))
    os.setsid()
    _end_with_parent(watched, _UNWATCHED)
    adopt_orphans()
    keeper = os.getpid()
    if rank := os.fork():
        os.setpgid(rank, rank)
        status = _wait_for(rank, os.killpg)
        _end_leftovers(status)
        _end_as(status)
    os.setpgid(0, 0)  # here too, whoever is first: a script's `kill 0` must not reach the keeper
    _end_with_parent(keeper, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, former)


def adopt_orphans() -> None:
    """Become the parent of every process below this one that loses its own parent, where the kernel is Linux."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants() -> None:
    """SIGKILL every process below this one, until none is left or ten seconds have passed.

    Takes the exit status of all children: call it where no other code waits for one.
    """
    deadline = time.monotonic() + _KILLING_SECONDS
    while _has_children() and time.monotonic() < deadline:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.01)


def _wait_for(child: int, send: Callable[[int, int], None]) -> int | None:
    """Pass signals on to a child until it ends; return its status as of waitpid(2), or None if `watched` has ended."""
    while True:
        number = signal.sigwait(_HEARD)
        if number == _UNWATCHED:
            return None
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                send(child, number)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # several may have ended; of adopted orphans, too
            if ended[0] == child:
                return ended[1]


def _end_leftovers(status: int | None) -> None:
    """Give the leftovers of a rank that ended well a moment, report those that are left, and kill them."""
    deadline = time.monotonic() + (GRACE_SECONDS if status == 0 else 0.0)
    while _has_children() and time.monotonic() < deadline:
        time.sleep(0.02)
    left = psutil.Process().children(recursive=True) if status == 0 else []
    if named := list(filter(None, map(_command, left))):
        rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("HOROVOD_RANK") or "0"
        shown = "; ".join(command[:80] for command in named[:3])
        print(f"Rank {rank} has ended and left {len(named)} process(es) running, which end now: {shown}", flush=True)
    end_descendants()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return ""


def _has_children() -> bool:
    """Take the exit status of children that have ended; return True if others are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _end_as(status: int | None) -> NoReturn:
    """End this process in the way of another one, by the same signal if it was one: launchers report it."""
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with contextlib.suppress(OSError):  # SIGKILL has no disposition
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(code)


def _end_with_parent(parent: int, number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent ends; send it now if the parent has ended already."""
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
