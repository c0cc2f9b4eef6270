"""The leash: kills the process groups that localcloud has started when the server is gone, however it ended.

Run as a program this is the helper that holds the other end of a pipe to the server. The server writes which process
groups live; when the pipe closes - at a clean end, at a crash, at SIGKILL - the helper kills them. What has left its
group, whatever its session or environment, is killed by its program's keeper (localcloud/keeper.py), which watches the
server too. Two gaps remain: a system other than Linux has no keepers, and a keeper that is itself killed by SIGKILL
keeps nothing; there, a daemon in a session of its own outlives its program. Needs the standard library only, because it
runs isolated from every environment.
"""

import os
import signal
import subprocess
import sys
import threading


class Leash:
    """Holds the helper process of this interpreter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None

    def hold(self, pid: int) -> None:
        """Tell the helper that the process group `pid` lives; starts the helper at the first."""
        with self._lock:
            if self._helper is None:
                self._helper = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # a Ctrl-C at the server's terminal must not reach it
                    env={},
                )
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


def kill_group(pid: int) -> None:
    """SIGKILL the process group `pid`, if it still exists."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return


def main() -> None:
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


if __name__ == "__main__":
    main()
