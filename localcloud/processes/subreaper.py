"""The subreaper of a program: adopts every process that the program leaves behind, and kills them at its end.

`subreaper.py REPORT COMMAND...` starts COMMAND in its own session, writes its process id (or "!" and an errno) to the
descriptor REPORT, and exits with its exit code as container runtimes do: 128 + signal for a killed program. Its
standard input is a pipe from the server: when the pipe closes, the server has ended, and the subreaper kills all of
them.

The kernel assigns orphans to the subreaper regardless of their session, process group or environment
(PR_SET_CHILD_SUBREAPER, prctl(2)); only Linux supports this. The subreaper requires only the standard library, because
it runs isolated, and imports little of it, because every program waits for these imports.
"""

import _thread
import ctypes
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_KILLING_SECONDS = 10.0
_PASSED_ON = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
_SERVER_GONE = signal.SIGALRM
_HEARD = _PASSED_ON | {signal.SIGCHLD, _SERVER_GONE}


def main(report: int, command: list[str]) -> int:
    """Run a command and return its exit code after all its processes have ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    os.set_inheritable(report, False)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = os.fork()
    if program == 0:
        _execute(command, report)
    os.write(report, f"{program} ".encode())
    os.close(report)
    _thread.start_new_thread(_watch_server, ())
    code = _wait_for(program)
    _end_descendants()
    return code


def _execute(command: list[str], report: int) -> "NoReturn":
    """Execute the command with the subreaper's original environment and with default signal handlers."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them from its start
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execvpe(command[0], command, _given_environment())  # noqa: S606 - the requested program
    except OSError as error:
        os.write(report, f"!{error.errno} ".encode())
        os._exit(127)


def _given_environment() -> dict[bytes, bytes]:
    """Return the original environment; Python may have set LC_CTYPE in os.environ (PEP 538)."""
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - importing pathlib is slow
        pairs = (variable.partition(b"=") for variable in file.read().split(b"\0") if variable)
        return {name: value for name, _, value in pairs}


def _watch_server() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), _SERVER_GONE)


def _wait_for(program: int) -> int:
    """Forward signals to the program until it or the server ends."""
    while True:
        number = signal.sigwait(_HEARD)
        if number == _SERVER_GONE:
            return 1
        if number != signal.SIGCHLD:
            os.kill(program, number)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # several may have ended, including adopted orphans
            if ended[0] == program:
                code = os.waitstatus_to_exitcode(ended[1])
                return 128 - code if code < 0 else code


def _end_descendants() -> None:
    """Send SIGKILL to all descendants until none is left, for at most ten seconds."""
    deadline = time.monotonic() + _KILLING_SECONDS
    while _has_children() and time.monotonic() < deadline:
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.005)


def _has_children() -> bool:
    """Reap children that have ended; return True if others are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants() -> set[int]:
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - as above
        try:
            with open(f"/proc/{name}/stat") as stat:  # noqa: PTH123 - as above
                parents[int(name)] = int(stat.read().rpartition(") ")[2].split()[1])  # proc(5): state, then ppid
        except OSError:
            continue
    descendants = set[int]()
    new = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in new}:
        descendants |= new
    return descendants


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), sys.argv[2:]))
