"""Metric feed: passes the ranks' output to the process that writes the metric history, without ever waiting for it."""

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from training_container.metric_history.line_reader import WORD_END
from training_container.metric_history.settings import Settings

# A write of at most PIPE_BUF bytes to a pipe is complete or fails, even if it does not block (pipe(7)).
_LINE_BYTES = 4000
_IN_WORDS = bytes(byte for byte in range(256) if not re.match(WORD_END, chr(byte)))
_PIPE_BYTES = 2**20  # the maximum without privileges (/proc/sys/fs/pipe-max-size), some 10,000 lines
_CLOSING_SECONDS = 20.0
_PROGRAM = (sys.executable, "-m", "training_container.metric_history.writer")


class MetricFeed:
    """The writer's process, and its standard input.

    Args:
        command: The writer's command line.
        environment: The writer's environment.
        warn: Receives a sentence about the first line that the writer did not get.
    """

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._has_warned = False
        # A new session: a signal to the group of `train` must not end the writer before it has written the rest.
        self._writer = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, start_new_session=True)
        assert self._writer.stdin is not None  # noqa: S101  # for the type checker: stdin is a pipe
        self._pipe = self._writer.stdin.fileno()
        os.set_blocking(self._pipe, False)
        if sys.platform == "linux":
            with suppress(OSError):  # if the user has too many large pipes, this one keeps its default size
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def process(self) -> int:
        """The writer's process id."""
        return self._writer.pid

    def line(self, text: str) -> None:
        """Pass on the searched part of a line. If the writer has ended or is too slow, the line is dropped."""
        content = searched_part(text.rstrip("\n").encode("utf-8", errors="replace"))
        try:
            os.write(self._pipe, b"%.3f %s\n" % (time.time(), content))
        except OSError as error:  # BlockingIOError: the pipe is full; BrokenPipeError: the writer has ended
            if not self._has_warned:
                self._has_warned = True
                reason = "there are too many" if isinstance(error, BlockingIOError) else "its writer has ended"
                self._warn(f"Some lines are missing in the metric history: {reason}. The log has all of them.")

    def close(self) -> None:
        """Let the writer write the rest, which takes less than a second if S3 answers; kill it after some seconds."""
        assert self._writer.stdin is not None  # noqa: S101  # as above
        try:
            self._writer.stdin.close()
            self._writer.wait(_CLOSING_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            self._writer.kill()
            self._writer.wait()


def searched_part(line: bytes) -> bytes:
    """Return the first 4,000 bytes of a line, without the word or number that this limit cuts."""
    return line if len(line) <= _LINE_BYTES else line[: _LINE_BYTES + 1].rstrip(_IN_WORDS)[:_LINE_BYTES]


@contextmanager
def metric_feed(environment: Mapping[str, str], warn: Callable[[str], None]) -> Iterator[MetricFeed | None]:
    """Run a writer for this job; yield None if the job has no metric history, or the writer cannot be started.

    Args:
        environment: The environment of `train`, with the settings of the metric history.
        warn: Receives a sentence if there is no history because of an error.
    """
    feed = None
    try:
        if Settings.from_environment(environment):
            feed = MetricFeed(_PROGRAM, environment, warn)
    except (OSError, ValueError) as error:
        warn(f"There is no metric history: {error}. Training continues; the log has all metrics.")
    try:
        yield feed
    finally:
        if feed:
            feed.close()
