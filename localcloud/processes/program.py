"""Programs started by localcloud: each in its own session and, on Linux, under a subreaper."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SUBREAPER = Path(__file__).with_name("subreaper.py")


class Program(subprocess.Popen[bytes]):
    """A program whose `stdout` contains both of its output streams.

    Under a subreaper, Popen's methods act on the subreaper: `wait` returns after all processes of the program have
    ended, and the subreaper forwards signals to the program.

    Attributes:
        program: The program's process id, which is also the id of its process group and session.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: str | Path) -> None:
        """Start the program.

        Args:
            command: Program and arguments.
            environment: Its complete environment.
            folder: Folder to start in.

        Raises:
            OSError: If the program or the folder does not exist, or cannot be used.
        """
        if sys.platform != "linux":
            self._start(command, environment, folder, stdin=subprocess.DEVNULL)
            self.program = self.pid
            return
        reading, report = os.pipe()
        with os.fdopen(reading) as reports:
            subreaper = [sys.executable, "-I", "-S", str(_SUBREAPER), str(report)]
            try:
                self._start([*subreaper, *command], environment, folder, stdin=subprocess.PIPE, pass_fds=(report,))
            finally:
                os.close(report)
            words = reports.read().split()  # the pipe closes when the program runs or has failed to start
        # A fault may kill the subreaper before it has started the program; then there is no other process.
        self.program = next((int(word) for word in words if not word.startswith("!")), self.pid)
        if failure := [word for word in words if word.startswith("!")]:
            self.end()
            number = int(failure[0].removeprefix("!"))
            raise OSError(number, os.strerror(number), command[0])

    def end(self) -> None:
        """End the subreaper with all its descendants, and wait for it."""
        if self.stdin:
            self.stdin.close()
        self.wait()
        if self.stdout:
            self.stdout.close()

    def _start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | Path,
        *,
        stdin: int,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        super().__init__(
            list(command),
            env=dict(environment),
            cwd=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )
