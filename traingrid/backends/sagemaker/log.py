"""Log: reads the logs of SageMaker's training jobs from CloudWatch Logs."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.clients import ClientFactory, client
from traingrid.aws.log_events import LogEvent, LogPosition, last_events, pages, stream_names
from traingrid.aws.outage import is_outage
from traingrid.backends.base import LogUnreadableError
from traingrid.grid.deployment import Deployment

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
"""The log group of all training jobs."""
_LARGE_PAGE = 1000
"""After a page with this many events the next page is read at once. A page has up to 10,000 events or 1 MB
(GetLogEvents)."""


class SageMakerLogs:
    """The logs of one Region's training jobs. Hosts have SageMaker's names: algo-1, algo-2, ...

    Args:
        make_client: Makes the client of CloudWatch Logs.
        names_of: Returns the names of the training jobs whose logs are the log of a name; by default only itself.
    """

    def __init__(
        self,
        deployment: Deployment,
        region: str,
        make_client: ClientFactory = client,
        names_of: Callable[[str], list[str]] = lambda name: [name],
    ) -> None:
        self._deployment, self._region, self._make_client, self._names_of = deployment, region, make_client, names_of

    def log_lines(
        self, name: str, position: LogPosition, *, to_end: bool = True, discover: bool = True
    ) -> Iterator[tuple[str, str]]:
        """See `Backend.log_lines`."""
        try:
            for training_job in self.log_names(name):
                streams = sorted(stream for stream in position if stream.startswith(f"{training_job}/"))
                for stream in self.log_streams(training_job) if discover else streams:
                    for message in self._new_messages(stream, position, to_end=to_end):
                        yield self.log_host(stream), message
        except (BotoCoreError, ClientError) as error:
            message = f"The log of {name} in {self._region} cannot be read now: {error}."
            raise LogUnreadableError(message, "The training job continues.", passes=is_outage(error)) from error

    def log_names(self, name: str) -> list[str]:
        """See `ReadableLogs.log_names`."""
        return self._names_of(name)

    def log_streams(self, training_job: str) -> list[str]:
        """Return the names of the log streams of a training job, one for each start of each host.

        There is no log group before the first training job of a Region logs.
        """
        return stream_names(self.logs, LOG_GROUP, f"{training_job}/")

    def log_host(self, stream: str) -> str:
        """See `ReadableLogs.log_host`."""
        return stream.partition("/")[2].rpartition("-")[0]

    def log_pages(self, stream: str, position: LogPosition, limit: int, since: int = 0) -> Iterator[list[LogEvent]]:
        """See `ReadableLogs.log_pages`."""
        window = {"startTime": since} if since else {}
        return pages(self.logs, LOG_GROUP, stream, position, limit=limit, **window)

    def last_log_events(self, stream: str, count: int, position: LogPosition, since: int = 0) -> list[LogEvent]:
        """See `ReadableLogs.last_log_events`."""
        window = {"startTime": since} if since else {}
        return last_events(self.logs, LOG_GROUP, stream, count, position, **window)

    @cached_property
    def logs(self) -> Any:
        """The client of CloudWatch Logs."""
        return self._make_client("logs", self._region, self._deployment.acting_role_in(self._region))

    def _new_messages(self, stream: str, position: LogPosition, *, to_end: bool) -> Iterator[str]:
        for events in pages(self.logs, LOG_GROUP, stream, position):
            yield from (event.message for event in events)
            if not to_end and len(events) < _LARGE_PAGE:
                return  # another call would only return the end of the stream
