"""Log: reads the logs of the containers `train` while their pods exist, which is until the object is deleted.

A cluster keeps no log of a pod that is gone. The API reads a log from a time of whole seconds, so lines that were read
before are skipped by their times.

A line without a time is not of the program. The kubelet answers 200 and its error as the text, for example "unable to
retrieve container logs for containerd://...", if it has evicted the pod or removed the container
(https://github.com/kubernetes/kubernetes/issues/142258); and the end of a long line whose beginning is before the time
from which the log is read has no time, either (isNewLine in ReadLogs of pkg/kubelet/kuberuntime/logs of Kubernetes).
"""

from __future__ import annotations

import logging
import re
from collections import deque
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.log_events import LogEvent
from traingrid.backends.base import LogGoneError, LogUnreadableError
from traingrid.backends.eks.hosts import host_name
from traingrid.backends.eks.pod_template import TRAIN
from traingrid.kubernetes.cluster import NoClusterError
from traingrid.kubernetes.errors import FORBIDDEN, NOT_FOUND, UNAUTHORIZED, ApiError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from traingrid.aws.log_events import LogPosition
    from traingrid.backends.eks.jobs import ClusterJobs
    from traingrid.kubernetes.client import Client, Object

_ERRORS = (ApiError, NoClusterError, BotoCoreError, ClientError)
logger = logging.getLogger(__name__)
_NOT_STARTED = 400
_TIME = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)", re.ASCII
)
"""A time in RFC 3339 (https://www.rfc-editor.org/rfc/rfc3339#section-5.6), as Kubernetes writes it: with nanoseconds,
and in the time zone of the node."""


class _Line(NamedTuple):
    """A line of a log, with its time in RFC 3339, in UTC and with nanoseconds."""

    time: str
    text: str


class EksLogs:
    """The logs of a cluster's training jobs. Hosts have SageMaker's names: algo-1, algo-2, ..."""

    def __init__(self, jobs: ClusterJobs) -> None:
        self._jobs = jobs

    def log_lines(self, name: str, position: LogPosition) -> Iterator[tuple[str, str]]:
        """See `Backend.log_lines`; the API has no pages."""
        try:
            hosts = self._pods.hosts(self._jobs.pods(name))
            for pod, host in hosts.items():
                for event in self._pods.new_lines(pod, position):
                    yield host, event.message
            if not hosts:
                self._check_log(name, hosts)
        except _ERRORS as error:
            raise unreadable(name, error) from error

    def log_names(self, name: str) -> list[str]:
        """See `ReadableLogs.log_names`."""
        return [name]

    def log_streams(self, training_job: str) -> list[str]:
        """See `ReadableLogs.log_streams`: `<host>/<pod>` of each pod."""
        try:
            hosts = self._pods.hosts(self._jobs.pods(training_job))
            self._check_log(training_job, hosts)
        except _ERRORS as error:
            raise unreadable(training_job, error) from error
        return [f"{host}/{pod}" for pod, host in hosts.items()]

    def log_host(self, stream: str) -> str:
        """See `ReadableLogs.log_host`."""
        return stream.partition("/")[0]

    def log_pages(self, stream: str, position: LogPosition, limit: int, since: int = 0) -> Iterator[list[LogEvent]]:
        """See `ReadableLogs.log_pages`."""
        pod = stream.partition("/")[2]
        try:
            yield from pages_of(self._pods.new_lines(pod, position, since), limit)
        except _ERRORS as error:
            raise unreadable(pod, error) from error

    def last_log_events(self, stream: str, count: int, position: LogPosition, since: int = 0) -> list[LogEvent]:
        """See `ReadableLogs.last_log_events`."""
        pod = stream.partition("/")[2]
        try:
            return self._pods.last_lines(pod, count, position, since)
        except _ERRORS as error:
            raise unreadable(pod, error) from error

    @property
    def _pods(self) -> PodLogs:
        return PodLogs(self._jobs.client)

    def _check_log(self, name: str, hosts: Mapping[str, str]) -> None:
        """Raise the error of a training job that has ended and whose hosts do not all have pods (any longer)."""
        cluster_job = self._jobs.find(name)
        if cluster_job is None or (cluster_job.is_over and len(hosts) < cluster_job.hosts):
            raise gone(name, self._jobs.settings.cluster, self._jobs.settings.namespace)


class PodLogs:
    """The logs of pods in one namespace.

    A position is `TIME#NUMBER`: the time of the last line that was read, and the number of lines read that have this
    time. The cluster returns lines from a time on, so it returns these again.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    @staticmethod
    def hosts(pods: Iterable[Object]) -> dict[str, str]:
        """Return the names of the hosts of a training job, by the name of the pod."""
        names = sorted((host_name(pod), str(pod["metadata"]["name"])) for pod in pods)
        return {pod: host for host, pod in sorted(names, key=lambda pair: (len(pair[0]), pair))}

    def new_lines(self, pod: str, position: LogPosition, since: int = 0) -> Iterator[LogEvent]:
        """Yield the lines of a pod after a position, and update the position with each.

        Args:
            position: The position of each pod.
            since: Read lines from this time, in milliseconds since 1970.

        Raises:
            ApiError: The request was refused, or the cluster did not answer.
        """
        last_time, _, number = position.get(pod, "").partition("#")
        unskipped_at_last_time = int(number or 0)  # lines of last_time that were read already
        time, read_at_time = last_time, unskipped_at_last_time
        start = last_time
        if not start and since:
            start = _rfc3339(since)
        for line in self._lines(pod, start):
            if last_time and line.time < last_time:
                continue
            if last_time and line.time == last_time and unskipped_at_last_time:
                unskipped_at_last_time -= 1
                continue
            read_at_time = read_at_time + 1 if line.time == time else 1
            time = line.time
            position[pod] = f"{time}#{read_at_time}"
            milliseconds = _milliseconds(line.time)
            if milliseconds >= since:
                yield LogEvent(milliseconds, line.text)

    def last_lines(self, pod: str, count: int, position: LogPosition, since: int = 0) -> list[LogEvent]:
        """Return the last lines of a pod, and set the position to its end."""
        lines = list(self._lines(pod, _rfc3339(since) if since else "", tail=max(count, 1)))
        if lines:
            same = sum(line.time == lines[-1].time for line in lines)
            position[pod] = f"{lines[-1].time}#{same}"
        events = (LogEvent(_milliseconds(line.time), line.text) for line in lines)
        return list(deque((event for event in events if event.time >= since), count))

    def _lines(self, pod: str, start: str, tail: int | None = None) -> Iterator[_Line]:
        try:
            for line in self._client.log(pod, TRAIN, start, tail):
                time_text, _, text = line.partition(" ")
                time = _utc_text(time_text)
                if time:
                    yield _Line(time, text)
                else:
                    logger.debug("a line without a time in the log of the pod %s: %s", pod, line)
        except ApiError as error:
            if error.code not in (_NOT_STARTED, NOT_FOUND):  # the container waits, or the pod was deleted just now
                raise


def pages_of(events: Iterator[LogEvent], limit: int) -> Iterator[list[LogEvent]]:
    """Yield lines in lists of at most `limit`."""
    while page := list(islice(events, limit)):
        yield page


def gone(name: str, cluster: str, namespace: str) -> LogGoneError:
    """Return the error for the log of a training job whose pods are gone."""
    text = f"The pods of {name} no longer exist in the namespace {namespace} of {cluster}, and their logs with them."
    return LogGoneError(
        text, "To keep logs, let the cluster send them to CloudWatch Logs (add-on amazon-cloudwatch-observability)."
    )


def unreadable(name: str, error: Exception) -> LogUnreadableError:
    """Return the error for a log that cannot be read now."""
    passes = isinstance(error, UnavailableError)
    if isinstance(error, ApiError) and error.code in (UNAUTHORIZED, FORBIDDEN):
        message = f"{error.what.rstrip('.')}, so the log of {name} cannot be read."
        return LogUnreadableError(message, error.next_step, passes=passes)
    text = str(error).rstrip(".")
    return LogUnreadableError(
        f"The log of {name} cannot be read now: {text}.", "The training job continues.", passes=passes
    )


def _utc_text(time: str) -> str:
    """Return a time with nine digits after the point and in UTC, so that times compare as texts; empty if it is none.

    The API may omit zeros.
    """
    match = _TIME.fullmatch(time)
    if match is None:
        return ""
    without_fraction, zone = match["whole"], match["zone"]
    try:
        moment = datetime.fromisoformat(f"{without_fraction}{zone}").astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # the 30th of February
        return ""
    return f"{moment.isoformat()}.{match['fraction'] or '':0<9}Z"


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _rfc3339(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
