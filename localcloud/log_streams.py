"""Log streams: write a process's output to CloudWatch Logs while it runs."""

import threading
import time

from moto.logs.exceptions import ResourceAlreadyExistsException, ResourceNotFoundException
from moto.logs.models import logs_backends

from localcloud.stored_log import StoredLogStream

FLUSH_SECONDS = 0.25
"""Interval in which lines are collected before they are sent; agents on AWS also send batches."""


class LogStream:
    """A log stream that accepts lines from any thread and sends them in batches.

    The first line of a batch starts the timer that sends the batch.
    """

    def __init__(self, account: str, region: str, group: str, stream: str) -> None:
        """Create the stream.

        Raises:
            moto.logs.exceptions.ResourceNotFoundException: If the group does not exist.
            moto.logs.exceptions.ResourceAlreadyExistsException: If the stream exists.
        """
        self._backend = logs_backends[account][region]
        log_group = self._backend.groups.get(group)
        if log_group is None:
            raise ResourceNotFoundException
        if stream in log_group.streams:
            raise ResourceAlreadyExistsException
        self._stored_stream = log_group.streams[stream] = StoredLogStream(log_group, stream)
        self._group, self._stream = group, stream
        self._lines: list[dict[str, object]] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._latest = 0

    def write(self, line: str) -> None:
        """Add one line; an empty line becomes a space, because CloudWatch Logs refuses empty events."""
        with self._lock:
            self._latest = max(self._latest, int(time.time() * 1000))  # PutLogEvents refuses decreasing times
            self._lines.append({"timestamp": self._latest, "message": line or " "})
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def put(self, events: list[dict[str, object]]) -> None:
        """Send events that have times."""
        self._backend.put_log_events(self._group, self._stream, events)

    def flush(self) -> None:
        """Send the collected lines."""
        with self._lock:
            lines, self._lines = self._lines, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if lines and self._exists():
                self._backend.put_log_events(self._group, self._stream, lines)

    def _exists(self) -> bool:
        """Return False if the stream has been deleted, also with its group, and even if others have their names now."""
        log_group = self._backend.groups.get(self._group)
        return log_group is not None and log_group.streams.get(self._stream) is self._stored_stream


def ensure_group(account: str, region: str, group: str) -> None:
    """Create the log group unless it exists, as services do for their default groups."""
    logs_backends[account][region].ensure_log_group(group)
