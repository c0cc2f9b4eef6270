"""Programs as localcloud starts them: each in a session of its own, below a keeper where the system is Linux."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_KEEPER = Path(__file__).with_name("keeper.py")


class Program(subprocess.Popen[bytes]):
    """A program whose output, both streams in one, is `stdout`.

    Below a keeper, what Popen does concerns the keeper: `wait` returns when nothing of the program is left, and a
    signal is passed on to the program.

    Attributes:
        program: The program's own process id, and the id of its process group and session.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: str | Path) -> None:
        """Start it.

        Args:
            command: Program and arguments.
            environment: Its whole environment.
            folder: Folder to start in.

        Raises:
            OSError: The program or the folder does not exist, or may not be used.
        """
        if sys.platform != "linux":
            self._start(command, environment, folder, stdin=subprocess.DEVNULL)
            self.program = self.pid
            return
        reading, report = os.pipe()
        with os.fdopen(reading) as reports:
            keeper = [sys.executable, "-I", "-S", str(_KEEPER), str(report)]
            try:
                self._start([*keeper, *command], environment, folder, stdin=subprocess.PIPE, pass_fds=(report,))
            finally:
                os.close(report)
            words = reports.read().split()  # ends when the program runs, or cannot
        self.program = next(int(word) for word in words if not word.startswith("!"))
        if failure := [word for word in words if word.startswith("!")]:
            self.end()
            number = int(failure[0].removeprefix("!"))
            raise OSError(number, os.strerror(number), command[0])

    def end(self) -> None:
        """Let the keeper end with all that is below it, and wait for that."""
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
