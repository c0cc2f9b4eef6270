"""Containers of localcloud: groups of processes that start, speak, stop and end together."""

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

from localcloud.leash import Leash, kill_group
from localcloud.programs import Program

LINE_BYTES = 256 * 1024
"""Longest line handed on in one piece (CloudWatch Logs quotas: an event is at most 256 KB); longer ones are cut."""

_DRAIN_SECONDS = 2.0

Spawn = Callable[[Sequence[str], Mapping[str, str], str | Path], Program]
"""Starts a program in a session of its own, with stdout and stderr in one pipe: command, environment, folder."""

_groups: "WeakValueDictionary[str, ProcessGroup]" = WeakValueDictionary()
_leash = Leash()
atexit.register(_leash.close)


class ProcessGroup:
    """A program and everything it starts, in a session of its own, as a container is.

    Attributes:
        pid: Process id of the program, which is also the id of its process group and session.
        label: What runs in it, e.g. "batch/<job id>/<attempt>"; "" where nobody needs to know.
        lost: Whether it was killed as by the loss of its host.
    """

    def __init__(  # noqa: PLR0913 - all but the command are named
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
            environment: Its whole environment; nothing of ours is inherited.
            working_directory: Folder to start in.
            on_line: Called, in a thread of this group, with each line of stdout and stderr, without its end.
            label: What runs in it; with one, the group is found by its access key (`group_of`).
            spawn: How to start the program.

        Raises:
            OSError: The program or the folder does not exist, or may not be used.
        """
        self.label, self.lost = label, False
        self._spawned, self._ended, self._reaping = threading.Event(), threading.Event(), threading.Lock()
        if label:  # before the program runs, which may call at once
            _groups[environment.get("AWS_ACCESS_KEY_ID", "")] = self
        self._process = spawn(command, environment, working_directory)
        self.pid = self._process.program
        _leash.hold(self.pid)
        self._reader = threading.Thread(target=self._read, args=(on_line,), name=f"output-{self.pid}", daemon=True)
        self._reader.start()
        self._spawned.set()  # last: whoever finds the group by its label may stop it, or wait for it, from now on

    @property
    def runs(self) -> bool:
        """Whether the program was started and has not ended."""
        return self._spawned.is_set() and self.wait(0) is None

    def terminate(self) -> None:
        """Send SIGTERM to the program alone, as container runtimes do to PID 1; passing it on is the program's duty."""
        if not self._ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL the program's process group at once; its keeper then kills what has left that group."""
        kill_group(self.pid)

    def lose(self, *, host_lost: bool) -> None:
        """SIGKILL the whole group, without a word to the program.

        Args:
            host_lost: Whether the host is lost, rather than the program killed.
        """
        self.lost = host_lost
        self._spawned.wait()
        self.kill()

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL to whatever is left after the grace. Returns at once: `wait` tells the end.

        Args:
            grace_seconds: Time between the two signals.
        """
        self.terminate()
        threading.Thread(target=self._kill_after, args=(grace_seconds,), name=f"stop-{self.pid}", daemon=True).start()

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until the program has ended and nothing of its group is left.

        Args:
            timeout: Seconds to wait at most; None waits for ever.

        Returns:
            The exit code as a container runtime gives it (128 + signal for a killed program), or None while it runs.
        """
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        with self._reaping:
            if not self._ended.is_set():
                self._reap()
        return 128 - code if code < 0 else code

    def _reap(self) -> None:
        """End what the program left behind, as the end of PID 1 ends its container, and hear its last words."""
        self.kill()
        _leash.release(self.pid)
        if self._process.stdin:
            self._process.stdin.close()
        self._reader.join(_DRAIN_SECONDS)
        self._ended.set()

    def _kill_after(self, seconds: float) -> None:
        if not self._ended.wait(seconds) and self._process.poll() is None:
            self.kill()

    def _read(self, on_line: Callable[[str], None]) -> None:
        output = self._process.stdout
        if output is None:
            return
        with output:
            while line := output.readline(LINE_BYTES):
                on_line(line.decode(errors="replace").rstrip("\r\n"))


def group_of(access_key: str) -> ProcessGroup | None:
    """The labelled group that was started with an access key, as long as somebody holds it."""
    return _groups.get(access_key)


def groups(pattern: str) -> list[ProcessGroup]:
    """The labelled groups that run now.

    Args:
        pattern: Glob of the label, e.g. "batch/*".
    """
    return [group for group in list(_groups.values()) if fnmatchcase(group.label, pattern) and group.runs]


def signal_name(exit_code: int) -> str | None:
    """The signal behind a container's exit code ("SIGKILL" for 137), or None."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return None


def search_path(first: str | Path, rest: str) -> str:
    """A PATH with one folder put in front."""
    return f"{first}{os.pathsep}{rest}"
