"""Terminal: runs a program in a pseudo-terminal, and returns the screen that a person would see."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping

import pyte

SECONDS = 60.0
_LINE = re.compile(rb"\r?[^\r\n]*(\r?\n)?")  # a live table returns to the start of its last line, and erases the table


class Terminal:
    """A program in a terminal of a certain size, emulated by pyte.

    Args:
        arguments: The arguments of this Python.
        columns: The width of the terminal.
        lines: Its height.
        environment: More variables.
    """

    def __init__(
        self, arguments: list[str], columns: int = 80, lines: int = 24, environment: Mapping[str, str] | None = None
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._waiting = b""
        self._end, other = pty.openpty()
        self.resize(columns, lines)
        cleared = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**cleared, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True,
        )
        os.close(other)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal, as a window does."""
        while self._draw_line():
            pass
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    @property
    def shown(self) -> list[str]:
        """The lines of the screen, without trailing spaces."""
        return [line.rstrip() for line in self.screen.display]

    def until(self, condition: Callable[[str], bool]) -> str:
        """Read until the screen fulfils a condition, and return it as text.

        The condition is checked after each line of output, so that a slow test skips no state of the screen. It should
        therefore include everything that the test expects of a screen that is drawn from top to bottom.

        Raises:
            TimeoutError: It does not within a minute.
        """
        deadline = time.monotonic() + SECONDS
        while not condition("\n".join(self.shown)):
            if not self._draw_line() and not self._read(deadline):
                raise TimeoutError("\n".join(self.shown))
        return "\n".join(self.shown)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> int:
        """Read until the program has ended, and return its exit code."""
        deadline = time.monotonic() + SECONDS
        while self._draw_line() or self._read(deadline):
            pass
        code = self.process.wait(timeout=SECONDS)
        os.close(self._end)
        return code

    def _read(self, deadline: float) -> bool:
        """Read some output, which is not drawn yet; return False at its end, or at the deadline."""
        ready, _, _ = select.select([self._end], [], [], max(deadline - time.monotonic(), 0))
        try:
            found = os.read(self._end, 65536) if ready else b""
        except OSError:  # EIO: the program has closed its terminal (pty(7))
            found = b""
        self.raw += found
        self._waiting += found
        return bool(found)

    def _draw_line(self) -> bool:
        """Draw the output up to the next end of a line, or return to its start; return False if all is drawn."""
        line = _LINE.match(self._waiting)[0]  # type: ignore[index]  # it matches every text
        self._waiting = self._waiting[len(line) :]
        self._stream.feed(line)
        return bool(line)
