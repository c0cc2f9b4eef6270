"""Containers of localcloud: process groups whose processes start, print, stop and end together."""

import atexit
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from weakref import WeakValueDictionary

from localcloud.processes.process_reaper import ProcessReaper, kill_group
from localcloud.processes.program import Program

LINE_BYTES = 256 * 1024
"""Maximum length of a line (CloudWatch Logs quotas: an event is at most 256 KB); longer lines are split."""

_DRAIN_SECONDS = 2.0

Spawn = Callable[[Sequence[str], Mapping[str, str], str | Path], Program]
"""Starts a program in its own session, with stdout and stderr in one pipe: command, environment, folder."""

_groups: "WeakValueDictionary[str, ProcessGroup]" = WeakValueDictionary()
_reaper = ProcessReaper()
atexit.register(_reaper.close)


class ProcessGroup:
    """A program and its child processes, in their own session, like a container.

    Attributes:
        pid: Process id of the program, which is also the id of its process group and session.
        label: Identifies the workload, for example "batch/<job id>/<attempt>"; "" if it is not needed.
        lost: True if it was killed to simulate the loss of its host.
    """

    def __init__(  # noqa: PLR0913 - all except the command are keyword-only
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        working_directory: str | Path,
        on_line: Callable[[str], None],
        label: str = "",
        spawn: Spawn = Program,
    ) -> None:
        """Start the program.

        Args:
            command: Program and arguments.
            environment: Its complete environment; it inherits no other variables.
            working_directory: Folder to start in.
            on_line: Called, in a thread of this group, with each line of stdout and stderr, without the line break.
            label: Identifies the workload; with a label, `group_of` finds the group by its access key.
            spawn: Function that starts the program.

        Raises:
            OSError: If the program or the folder does not exist, or cannot be used.
        """
        self.label, self.lost = label, False
        self._spawn_event = threading.Event()
        self._end_event = threading.Event()
        self._reap_lock = threading.Lock()
        if label:  # before the program runs, because its first call may come immediately
            _groups[environment.get("AWS_ACCESS_KEY_ID", "")] = self
        self._process = spawn(command, environment, working_directory)
        self.pid = self._process.program
        _reaper.hold(self.pid)
        self._reader = threading.Thread(target=self._read, args=(on_line,), name=f"output-{self.pid}", daemon=True)
        self._reader.start()
        self._spawn_event.set()  # last: callers that find the group by its label may stop it or wait for it from now on

    @property
    def runs(self) -> bool:
        """Return True if the program has started and not ended."""
        return self._spawn_event.is_set() and self.wait(0) is None

    def terminate(self) -> None:
        """Send SIGTERM to the program only, as container runtimes do to PID 1; the program must forward it."""
        if not self._end_event.is_set():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def handles(self, number: signal.Signals) -> bool:
        """Return True if the program has a handler of a signal, or if that is unknown (without Linux's /proc)."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return True
        caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), -1)
        return bool(caught >> (number - 1) & 1)

    def kill(self) -> None:
        """Send SIGKILL to the program's process group; its subreaper then kills processes that have left the group."""
        kill_group(self.pid)

    def lose(self, *, host_lost: bool) -> None:
        """Send SIGKILL to the whole group without a warning.

        Args:
            host_lost: True if the host is lost; False if only the program is killed.
        """
        self.lost = host_lost
        self._spawn_event.wait()
        self.kill()

    def freeze(self) -> None:
        """Stop the program's process group where it is (SIGSTOP), as a paused machine does; `thaw` continues it."""
        self._signal_group(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue a group that was frozen."""
        self._signal_group(signal.SIGCONT)

    def _signal_group(self, number: signal.Signals) -> None:
        self._spawn_event.wait()
        if not self._end_event.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM now, and SIGKILL after the grace period. Returns at once; `wait` waits for the end.

        Args:
            grace_seconds: Time between the two signals.
        """
        self.terminate()
        threading.Thread(target=self._kill_after, args=(grace_seconds,), name=f"stop-{self.pid}", daemon=True).start()

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until the program has ended and all processes of its group are gone.

        Args:
            timeout: Maximum seconds to wait; None waits without a limit.

        Returns:
            The exit code as container runtimes report it (128 + signal for a killed program), or None while it runs.
        """
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        with self._reap_lock:
            if not self._end_event.is_set():
                self._reap()
        return 128 - code if code < 0 else code

    def _reap(self) -> None:
        """End the remaining processes, as the end of PID 1 ends its container, and read the rest of the output."""
        self.kill()
        _reaper.release(self.pid)
        if self._process.stdin:
            self._process.stdin.close()
        self._reader.join(_DRAIN_SECONDS)
        self._end_event.set()

    def _kill_after(self, seconds: float) -> None:
        if not self._end_event.wait(seconds) and self._process.poll() is None:
            self.kill()

    def _read(self, on_line: Callable[[str], None]) -> None:
        output = self._process.stdout
        if output is None:
            return
        with output:
            while line := output.readline(LINE_BYTES):
                on_line(line.decode(errors="replace").rstrip("\r\n"))


def group_of(access_key: str) -> ProcessGroup | None:
    """Return the labelled group that was started with an access key, while it is referenced."""
    return _groups.get(access_key)


def groups(pattern: str) -> list[ProcessGroup]:
    """Return the running labelled groups.

    Args:
        pattern: Glob of the label, for example "batch/*".
    """
    return [group for group in list(_groups.values()) if fnmatchcase(group.label, pattern) and group.runs]


def signal_name(exit_code: int) -> str | None:
    """Return the signal of a container's exit code ("SIGKILL" for 137), or None."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return None


def search_path(first: str | Path, others_path: str) -> str:
    """Return a PATH with one folder added in front."""
    return f"{first}{os.pathsep}{others_path}"
