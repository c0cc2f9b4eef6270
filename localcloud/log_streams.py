"""Log streams: write a process's output to CloudWatch Logs while it runs."""

import threading
import time

from moto.logs.models import LogEvent, logs_backends

FLUSH_SECONDS = 0.25
"""Interval in which lines are collected before they are sent; agents on AWS also send batches."""

KEPT_EVENTS, KEPT_BYTES = 200_000, 128 * 1024 * 1024
"""Limits of a stream, because it is in memory. Beyond them, the older half is deleted, so that a program with endless
output cannot exhaust the memory. No caller reads that far back."""


class LogStream:
    """A log stream that accepts lines from any thread and sends them in batches.

    The first line of a batch starts the timer that sends the batch.
    """

    def __init__(self, account: str, region: str, group: str, stream: str) -> None:
        """Create the stream.

        Raises:
            moto.logs.exceptions.ResourceNotFoundException: If the group does not exist.
        """
        self._backend = logs_backends[account][region]
        self._backend.create_log_stream(group, stream)
        self._group, self._stream = group, stream
        self._lines: list[dict[str, object]] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._latest = 0
        self._bytes = 0

    def write(self, line: str) -> None:
        """Add one line; an empty line becomes a space, because CloudWatch Logs refuses empty events."""
        with self._lock:
            self._latest = max(self._latest, int(time.time() * 1000))  # PutLogEvents refuses decreasing times
            self._lines.append({"timestamp": self._latest, "message": line or " "})
            self._bytes += len(line)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Send the collected lines."""
        with self._lock:
            lines, self._lines = self._lines, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if lines and self._group in self._backend.groups:  # the group may have been deleted
                self._backend.put_log_events(self._group, self._stream, lines)
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        LogEvent.instances_tracked.clear()  # otherwise moto's dashboard, which is not served, would keep every event
        events = self._backend.groups[self._group].streams[self._stream].events
        if len(events) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
            del events[: len(events) // 2]
            self._bytes = sum(len(event.message) for event in events)


def ensure_group(account: str, region: str, group: str) -> None:
    """Create the log group unless it exists, as services do for their default groups."""
    logs_backends[account][region].ensure_log_group(group)
