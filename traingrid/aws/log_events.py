"""Log events: reads log streams of CloudWatch Logs page by page.

A page has up to 10,000 events or 1 MB, and may be empty before the end; only a repeated token marks the end
(https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator

LogPosition: TypeAlias = dict[str, str]
"""The position up to which each log stream was read: stream name to the service's own token."""
MAX_EVENTS = 10_000
"""The most events of a page."""


class LogEvent(NamedTuple):
    """One event of a log stream.

    Attributes:
        time: Its time, in milliseconds since 1970.
        message: Its text, without a line end.
    """

    time: int
    message: str


def stream_names(logs: Any, group: str, prefix: str) -> list[str]:
    """Return the names of the streams that start with a prefix; none if the group does not exist yet."""
    try:
        pages = logs.get_paginator("describe_log_streams").paginate(logGroupName=group, logStreamNamePrefix=prefix)
        return sorted(stream["logStreamName"] for page in pages for stream in page["logStreams"])
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return []
        raise


def pages(logs: Any, group: str, stream: str, position: LogPosition, **more: Any) -> Iterator[list[LogEvent]]:
    """Yield the pages of a stream after a position up to its end, and update the position with each.

    Args:
        logs: The client of CloudWatch Logs.
        position: The position of each stream.
        more: Other parameters of GetLogEvents, for example `startTime`.
    """
    while True:
        request = {"logGroupName": group, "logStreamName": stream, "startFromHead": True, **more}
        if stream in position:
            request["nextToken"] = position[stream]
        page = logs.get_log_events(**request)
        token = page["nextForwardToken"]
        is_last = token == position.get(stream)
        position[stream] = token
        yield _events(page)
        if is_last:
            return


def last_events(logs: Any, group: str, stream: str, count: int, position: LogPosition, **more: Any) -> list[LogEvent]:
    """Return the last events of a stream in chronological order, and set the position to the stream's end.

    Args:
        logs: The client of CloudWatch Logs.
        position: The position of each stream.
        more: Other parameters of GetLogEvents, for example `startTime`.
    """
    events: list[LogEvent] = []
    request = {"logGroupName": group, "logStreamName": stream, "startFromHead": False, **more}
    while len(events) < count:
        page = logs.get_log_events(**request, limit=min(MAX_EVENTS, count - len(events)))
        position.setdefault(stream, page["nextForwardToken"])
        events = _events(page) + events
        if page["nextBackwardToken"] == request.get("nextToken"):
            break
        request["nextToken"] = page["nextBackwardToken"]
    return events


def _events(page: dict[str, Any]) -> list[LogEvent]:
    return [LogEvent(event["timestamp"], event["message"].rstrip("\n")) for event in page["events"]]
