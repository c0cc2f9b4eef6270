"""Reaper of process groups: kills those of localcloud after the server has ended for any reason.

Run as a program, this module is the helper that reads a pipe from the server. The server writes the running process
groups; when the pipe closes - at a clean end, a crash or SIGKILL - the helper kills them. Processes that have left
their group, in any session or environment, are killed by their program's subreaper (localcloud/processes/subreaper.py),
which also watches the server. Two gaps remain: systems other than Linux have no subreapers, and a subreaper that is
killed by SIGKILL cannot act; in these cases, a daemon in its own session outlives its program. Requires only the
standard library, because it runs isolated from every environment.
"""

import os
import signal
import subprocess
import sys
import threading


class ProcessReaper:
    """Manages the helper process of this interpreter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None

    def hold(self, pid: int) -> None:
        """Report a running process group to the helper; the first call starts the helper."""
        with self._lock:
            if self._helper is None:
                self._helper = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C at the server's terminal must not reach it
                    env={},
                )
        self._write(f"+{pid}\n")

    def release(self, pid: int) -> None:
        """Report to the helper that a process group has ended, because its number may be reused."""
        self._write(f"-{pid}\n")

    def close(self) -> None:
        """End the helper, which kills all remaining process groups."""
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
    """Send SIGKILL to the process group `pid`, if it still exists."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS returns EPERM for a group of zombies
        return


def main() -> None:
    """Run the helper: track process groups until the pipe closes, then kill the remaining ones."""
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
