"""Writing a process's output to CloudWatch Logs as it comes."""

import threading
import time

from moto.logs.models import LogEvent, logs_backends

FLUSH_SECONDS = 0.25
"""How long lines are gathered before they are put; agents on AWS batch in the same way."""

KEPT_EVENTS, KEPT_BYTES = 200_000, 128 * 1024 * 1024
"""What a stream holds at most, because it lies in memory here. Beyond it the older half goes, so that a program that
prints without end cannot take the machine's memory; nobody reads so far back."""


class LogStream:
    """A log stream that takes lines from any thread and puts them in batches.

    The thread that writes a line also puts the batch when the last put is long enough ago; one timer puts the rest.
    """

    def __init__(self, account: str, region: str, group: str, stream: str) -> None:
        """Create the stream.

        Raises:
            moto.logs.exceptions.ResourceNotFoundException: The group does not exist.
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
        """Take one line; CloudWatch Logs refuses empty events, so an empty line becomes a blank."""
        with self._lock:
            self._latest = max(self._latest, int(time.time() * 1000))  # PutLogEvents refuses to go back in time
            self._lines.append({"timestamp": self._latest, "message": line or " "})
            self._bytes += len(line)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Put what was gathered."""
        with self._lock:
            lines, self._lines = self._lines, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if lines and self._group in self._backend.groups:  # a deleted group takes no more lines
                self._backend.put_log_events(self._group, self._stream, lines)
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        LogEvent.instances_tracked.clear()  # moto's dashboard, which is not served, would hold every event for ever
        events = self._backend.groups[self._group].streams[self._stream].events
        if len(events) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
            del events[: len(events) // 2]
            self._bytes = sum(len(event.message) for event in events)


def ensure_group(account: str, region: str, group: str) -> None:
    """Create the log group unless it exists, as the services do for their own default groups."""
    logs_backends[account][region].ensure_log_group(group)
