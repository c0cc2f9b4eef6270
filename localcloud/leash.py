"""The leash: no process that localcloud started outlives it, however the server dies.

Run as a program this is the helper that holds the other end of a pipe to the server. The server never writes more than
the process groups that live; when the pipe closes - at a clean end, at a crash, at SIGKILL - the helper kills what is
left. Needs the standard library only, because it runs isolated from every environment.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

MARK = "LOCALCLOUD_PROCESS_GROUP"
"""Environment variable that every process of a group inherits: "<leash>/<number>". It finds what has left its process
group or session, as Open MPI's ranks (own process group) and daemons (own session) do."""

_RESCANS_SECONDS = (0.0, 0.1, 0.3, 1.0)  # a child caught between fork and exec shows its mark a moment later


class Leash:
    """Holds the helper process of this interpreter.

    Attributes:
        name: Start of the marks of all groups on this leash.
    """

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._count = 0
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None

    def new_mark(self) -> str:
        """The mark of a group about to be spawned; starts the helper at the first."""
        with self._lock:
            if self._helper is None:
                self._helper = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, self.name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # a Ctrl-C at the server's terminal must not reach it
                    env={},
                )
            self._count += 1
            return f"{self.name}/{self._count}"

    def hold(self, pid: int) -> None:
        """Tell the helper that the process group `pid` lives."""
        self._write(f"+{pid}\n")

    def release(self, pid: int) -> None:
        """Tell the helper that the process group `pid` is gone, so that its number may mean somebody else."""
        self._write(f"-{pid}\n")

    def close(self) -> None:
        """End the helper, which kills whatever still lives."""
        with self._lock:
            if self._helper is None:
                return
            helper, self._helper = self._helper, None
        if helper.stdin:
            helper.stdin.close()
        helper.wait()

    def _write(self, line: str) -> None:
        with self._lock:
            if self._helper and self._helper.stdin:
                self._helper.stdin.write(line.encode())
                self._helper.stdin.flush()


def kill_marked(mark: str) -> int:
    """SIGKILL every process whose environment carries a mark that starts with `mark`.

    Reads /proc, so it finds processes in other groups and sessions on Linux; elsewhere it finds none, and what
    `killpg` reaches must do.

    Returns:
        How many processes were killed.
    """
    wanted = f"\0{MARK}={mark}".encode()
    killed = 0
    for name in filter(str.isdigit, os.listdir("/proc")) if Path("/proc").is_dir() else ():  # noqa: PTH208 - this runs for each process that ends
        try:
            with open(f"/proc/{name}/environ", "rb") as environment:  # noqa: PTH123
                marked = wanted in b"\0" + environment.read()
            if marked and _is_alive(name):
                os.kill(int(name), signal.SIGKILL)
                killed += 1
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # gone meanwhile, or another user's
            continue
    return killed


def kill_group(pid: int) -> None:
    """SIGKILL the process group `pid`, if it still exists."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return


def _is_alive(process: str) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][:1] != "Z"


def main(name: str) -> None:
    """The helper: follow the server's notes until the pipe closes, then kill what is left."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line[0] == "+":
            groups.add(pid)
        else:
            groups.discard(pid)
    for pid in groups:
        kill_group(pid)
    for pause in _RESCANS_SECONDS:
        time.sleep(pause)
        if not kill_marked(f"{name}/") and not groups:
            return


if __name__ == "__main__":
    main(sys.argv[1])
