"""Parts: collects the lines of a metric history, and writes them as numbered objects at a limited rate."""

from collections.abc import Callable
from datetime import datetime

SECONDS = 30.0
"""The minimum time between two objects."""
_LAST_WRITES = 3
MAX_BYTES = 4 * 2**20
"""The maximum size of an object. Two of them are in memory at most: one that waits for S3, and the next one."""


class Parts:
    """The parts that one run of the container writes.

    The name of a part contains the time at which the run started. SageMaker runs the container of an interrupted spot
    training again, in the same training job, and that run cannot know the names of the earlier one's parts. Names sort
    by time.

    A part whose write failed keeps its name and content until a later write succeeds. So S3 never has two versions of a
    part, even if it stored one whose reply was lost.

    Args:
        put: Writes an object, given its name and content. It raises OSError if it fails.
        started: The start of this run.
        clock: A function that returns monotonic seconds.
        warn: Receives a sentence about the first failed write and the first lost value.
    """

    def __init__(
        self,
        put: Callable[[str, bytes], None],
        started: datetime,
        clock: Callable[[], float],
        warn: Callable[[str], None],
    ) -> None:
        self._put, self._clock, self._warn = put, clock, warn
        self._run = f"{started:%Y%m%dT%H%M%S}{started.microsecond // 1000:03d}Z"
        self._number = 0
        self._lines: list[bytes] = []
        self._size = 0
        self._unsent_part: tuple[str, bytes] | None = None
        self._next_send_at = clock()
        self._printed_warnings: set[str] = set()

    def add(self, line: str) -> None:
        """Add a line. If the memory is used up, because S3 fails or there are too many values, it is lost."""
        content = line.encode() + b"\n"
        if self._size + len(content) > MAX_BYTES:
            self._warn_once(
                "lost", "Some values of metrics are missing in the metric history; the log has all of them."
            )
            return
        self._lines.append(content)
        self._size += len(content)

    @property
    def is_due(self) -> bool:
        """True if there is something to write, and the last write began at least `SECONDS` ago."""
        return bool(self._lines or self._unsent_part) and self._clock() >= self._next_send_at

    def write(self) -> None:
        """Write one object: the part whose write failed, or all lines so far. A failure is reported once."""
        if self._unsent_part is None and self._lines:
            self._number += 1
            self._unsent_part = (f"{self._run}-{self._number:06d}.jsonl", b"".join(self._lines))
            self._lines, self._size = [], 0
        self._next_send_at = self._clock() + SECONDS
        if self._unsent_part is None:
            return
        try:
            self._put(*self._unsent_part)
        except OSError as error:
            text = " ".join(str(error).split())[:500]
            self._warn_once(
                "put", f"The metric history cannot be written: {text}. Training continues; writing is retried."
            )
        else:
            self._unsent_part = None

    def write_rest(self) -> None:
        """Write everything that is left, at most two objects, regardless of the rate. Repeat a failed write once."""
        for _ in range(_LAST_WRITES):
            if self._unsent_part or self._lines:
                self.write()

    def _warn_once(self, problem: str, text: str) -> None:
        if problem not in self._printed_warnings:
            self._printed_warnings.add(problem)
            self._warn(text)
