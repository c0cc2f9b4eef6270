"""Stored logs: the events of a log stream in a file, and the operations of CloudWatch Logs that read them.

moto keeps every event as an object in memory, sorts all events of a stream for each page, and does not limit the size
of a page.
"""

import tempfile
import threading
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from moto.core.utils import unix_time_millis, utcnow
from moto.logs.exceptions import InvalidParameterException
from moto.logs.models import LogGroup
from moto.logs.models import LogStream as MotoLogStream

from localcloud.log_filter import message_filter

MAX_EVENTS, MAX_BYTES = 10_000, 1024 * 1024
"""The limits of a page: "up to 1 MB of log events or up to 10,000 log events"
(https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html)."""
EVENT_OVERHEAD = 26
"""The bytes that CloudWatch Logs adds to the size of each event
(https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html)."""
KEPT_BYTES = 2 * 1024 * 1024 * 1024
"""The limit of a stream in bytes, so that a program with endless output cannot fill the disk. AWS has none."""
CUT = "localcloud: the log stream has reached its limit, and the lines after this one are lost."


class StoredLogStream(MotoLogStream):
    """A log stream whose events are in an unnamed temporary file; only their times and positions are in memory."""

    def __init__(self, log_group: LogGroup, name: str) -> None:
        super().__init__(log_group, name)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the stream exists
        weakref.finalize(self, self._file.close)
        self._timestamps = array("q")
        self._ingestion_times = array("q")
        self._end_offsets = array("Q", [0])
        self._is_cut = False
        self._access = threading.Lock()

    def __len__(self) -> int:
        return len(self._timestamps)

    def put_log_events(self, log_events: list[dict[str, Any]]) -> str:
        """Append events; see PutLogEvents. After the limit, only one more event is stored, which states it."""
        with self._access:
            self.last_ingestion_time = utcnow()
            self.upload_sequence_token += 1
            now = int(unix_time_millis(self.last_ingestion_time))
            self._file.seek(self._end_offsets[-1])
            for event in log_events:
                if not self._is_cut:
                    self._is_cut = self._end_offsets[-1] >= KEPT_BYTES
                    self._append(now, event["timestamp"], CUT if self._is_cut else event["message"])
            self.stored_bytes = self._end_offsets[-1]
        return f"{self.upload_sequence_token:056d}"

    def _append(self, now: int, at: int, message: str) -> None:
        content = message.encode("utf-8", "surrogatepass")
        self._file.write(content)
        self._end_offsets.append(self._end_offsets[-1] + len(content))
        self._timestamps.append(max(at, self._timestamps[-1]) if self._timestamps else at)
        self._ingestion_times.append(now)

    def _update(self) -> None:
        if self._timestamps:
            self.first_event_timestamp, self.last_event_timestamp = self._timestamps[0], self._timestamps[-1]
            self.events = [self]  # DescribeLogStreams only asks if there are any

    def get_log_events(  # the signature of moto
        self,
        start_time: int | None,
        end_time: int | None,
        limit: int | None,
        next_token: str | None,
        start_from_head: bool,  # the signature of moto
    ) -> tuple[list[dict[str, Any]], str, str]:
        """Return a page of events, the token for the page before it, and that for the page after it."""
        with self._access:
            window = self._window(start_time, end_time)
            page = self._page(window, limit or MAX_EVENTS, *_position(next_token, start_from_head=start_from_head))
            events = [self._event(index, message) for index, message in zip(page, self._messages(page), strict=True)]
        return events, f"b/{page.start:056d}", f"f/{page.stop:056d}"

    def _window(self, start_time: int | None, end_time: int | None) -> range:
        """Return the indexes of the events from `start_time` up to, without, `end_time`."""
        first = bisect_left(self._timestamps, start_time) if start_time else 0
        return range(first, bisect_left(self._timestamps, end_time) if end_time else len(self._timestamps))

    def _page(self, window: range, limit: int, position: int | None, direction: str) -> range:
        """Return the indexes of the page that begins, or ends, at a position; by default at the end of the window."""
        if direction == "f":
            first = last = max(window.start, position or 0)
            while last < window.stop and last - first < limit and self._fits(first, last + 1):
                last += 1
        else:
            first = last = window.stop if position is None else min(window.stop, position)
            while first > window.start and last - first < limit and self._fits(first - 1, last):
                first -= 1
        return range(first, last)

    def _fits(self, first: int, last: int) -> bool:
        """Return True if the events from `first` up to, without, `last` fit into a page; one event always does."""
        count = last - first
        return count == 1 or self._end_offsets[last] - self._end_offsets[first] + EVENT_OVERHEAD * count <= MAX_BYTES

    def _messages(self, page: Sequence[int]) -> Iterator[str]:
        """Yield the messages of consecutive events, which are read at once."""
        if not page:
            return
        start = self._end_offsets[page[0]]
        self._file.seek(start)
        content = self._file.read(self._end_offsets[page[-1] + 1] - start)
        for index in page:
            yield content[self._end_offsets[index] - start : self._end_offsets[index + 1] - start].decode(
                "utf-8", "surrogatepass"
            )

    def _event(self, index: int, message: str) -> dict[str, Any]:
        return {"ingestionTime": self._ingestion_times[index], "message": message, "timestamp": self._timestamps[index]}

    def filter_log_events(self, start_time: int, end_time: int, filter_pattern: str | None) -> list[dict[str, Any]]:
        """Return the events that match a pattern; see FilterLogEvents, whose endTime is included."""
        matches = message_filter(filter_pattern)
        with self._access:
            window = self._window(start_time, end_time + 1 if end_time else None)
            return [
                self._event(index, message) | {"eventId": str(index), "logStreamName": self.log_stream_name}
                for index, message in zip(window, self._messages(window), strict=True)
                if matches(message)
            ]


def _position(token: str | None, *, start_from_head: bool) -> tuple[int | None, str]:
    """Return the position of a token, and its direction: "f" for the page after it, "b" for the page before it.

    Raises:
        InvalidParameterException: No page has returned the token.
    """
    if token is None:
        return None, "f" if start_from_head else "b"
    direction, _, index = token.partition("/")
    if direction not in ("f", "b") or not index.isdigit():
        raise InvalidParameterException("The specified nextToken is invalid.")
    return int(index), direction
