"""Log: reads the logs of the service in memory, which has one host for each training job."""

from collections.abc import Iterator

from tests.support.template_backend.jobs import MemoryService
from traingrid.aws.log_events import LogEvent, LogPosition

_HOST = "algo-1"


class TemplateLogs:
    """The logs of a Region; see `ReadableLogs`. A position is the number of lines that were read.

    Args:
        service: The service.
    """

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def log_lines(self, name: str, position: LogPosition) -> Iterator[tuple[str, str]]:
        """Yield (host, line) of each new line."""
        for stream in self.log_streams(name):
            for page in self.log_pages(stream, position, limit=100):
                yield from ((self.log_host(stream), event.message) for event in page)

    def log_names(self, name: str) -> list[str]:
        """Return the name: a training job has one log."""
        return [name]

    def log_streams(self, training_job: str) -> list[str]:
        """Return the stream of the only host."""
        return [f"{training_job}/{_HOST}"] if training_job in self._service.jobs else []

    def log_host(self, stream: str) -> str:
        """Return the host of a stream."""
        return stream.rpartition("/")[2]

    def log_pages(self, stream: str, position: LogPosition, limit: int, since: int = 0) -> Iterator[list[LogEvent]]:
        """Yield the lines after the position, and move it before each page is used."""
        lines = self._service.jobs[stream.partition("/")[0]].lines
        while (start := int(position.get(stream, "0"))) < len(lines):
            page = lines[start : start + limit]
            position[stream] = str(start + len(page))
            yield [LogEvent(since, line) for line in page]

    def last_log_events(self, stream: str, count: int, position: LogPosition, since: int = 0) -> list[LogEvent]:
        """Return the last lines."""
        events = [event for page in self.log_pages(stream, position, 100, since) for event in page]
        return events[-count:]
