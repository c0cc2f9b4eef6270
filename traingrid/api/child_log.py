"""Child log: the log of a job's Batch child, and the lines of the training that the child has printed.

A cluster of EKS keeps the log of a pod only as long as the pod, and removes an ended pod together with its node. The
child has printed the lines by then, because it follows the log until the training job has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from traingrid.aws.clients import client
from traingrid.aws.log_events import LogEvent
from traingrid.errors import TraingridError
from traingrid.log import TRAINING
from traingrid.strict_json import JsonError, json_object, member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.api.control_plane import ControlPlane
    from traingrid.aws.log_events import LogPosition

_DEFAULT_GROUP = "/aws/batch/job"
"""Batch's default log group (https://docs.aws.amazon.com/batch/latest/userguide/using_awslogs.html)."""
_READ = "read"


class ChildEvent(NamedTuple):
    """An event of a child's log.

    Attributes:
        stream: The log stream: one for each attempt of the child.
        event: The event, usually a JSON object.
    """

    stream: str
    event: LogEvent


def child_log(plane: ControlPlane, submission: str, index: int) -> Iterator[ChildEvent]:
    """Yield the log of all attempts of a job's child, in chronological order.

    Raises:
        TraingridError: The job does not exist, or its child has not run in the last seven days.
    """
    plane.job(submission, index)  # raises an error for an index out of range
    submission_item = plane.head(submission)
    job = plane.children.described(plane.children.ids(submission_item).get(index, ""))
    tries = [attempt["container"] for attempt in job.get("attempts", [])] + [job.get("container", {})]
    streams = sorted({try_["logStreamName"] for try_ in tries if try_.get("logStreamName")})
    if not streams:
        state = job.get("status", "Batch does not know the child")
        text = f"The child of job {index} of submission {submission} has no log: {state}."
        raise TraingridError(text, job.get("statusReason") or "Batch keeps the data of a child for seven days.")
    options = job["container"].get("logConfiguration", {}).get("options", {})
    pages = client("logs", plane.deployment.grid.home).get_paginator("filter_log_events")
    for page in pages.paginate(logGroupName=options.get("awslogs-group", _DEFAULT_GROUP), logStreamNames=streams):
        for event in page["events"]:
            yield ChildEvent(event["logStreamName"], LogEvent(event["timestamp"], event["message"]))


class PrintedLog:
    """The log of a training job as its child has printed it, with one stream for each host."""

    def __init__(self, plane: ControlPlane, submission: str, index: int, training_job: str) -> None:
        self._plane, self._submission, self._index, self._name = plane, submission, index, training_job

    def log_names(self, name: str) -> list[str]:
        """See `ReadableLogs.log_names`."""
        return [name]

    def log_streams(self, training_job: str) -> list[str]:
        """See `ReadableLogs.log_streams`: `<training job>/<host>`.

        Raises:
            TraingridError: Batch does not know the child any longer.
        """
        return [f"{training_job}/{host}" for host in self._hosts]

    def log_host(self, stream: str) -> str:
        """See `ReadableLogs.log_host`."""
        return stream.rpartition("/")[2]

    def log_pages(self, stream: str, position: LogPosition, limit: int, since: int = 0) -> Iterator[list[LogEvent]]:
        """See `ReadableLogs.log_pages`. The log is complete, so it is read once."""
        lines = [] if position.get(stream) else self._events_since(stream, since)
        for start in range(0, len(lines), limit):
            yield lines[start : start + limit]
        position[stream] = _READ

    def last_log_events(self, stream: str, count: int, position: LogPosition, since: int = 0) -> list[LogEvent]:
        """See `ReadableLogs.last_log_events`."""
        position[stream] = _READ
        return self._events_since(stream, since)[-count:] if count else []

    def _events_since(self, stream: str, since: int) -> list[LogEvent]:
        return [event for event in self._hosts[self.log_host(stream)] if event.time >= since]

    @cached_property
    def _hosts(self) -> Mapping[str, list[LogEvent]]:
        """The lines of each host, of the attempt of the child that has printed most: each prints from the start."""
        events_by_host: dict[str, dict[str, list[LogEvent]]] = defaultdict(lambda: defaultdict(list))
        for stream, (time, message) in child_log(self._plane, self._submission, self._index):
            try:
                line = json_object(message)
                if (line.get("event"), line.get("training_job")) == (TRAINING, self._name):
                    host = member(line, "host", str)
                    text = member(line, "message", str).removeprefix(f"[{host}] ")  # a single host has no prefix
                    events_by_host[host][stream].append(LogEvent(time, text))
            except JsonError:  # a line of another kind, or of another program
                continue
        hosts = sorted(events_by_host, key=lambda host: (len(host), host))
        return {host: max(events_by_host[host].values(), key=len) for host in hosts}
