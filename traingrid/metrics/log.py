"""Metric log: reads the metrics of a training job without metric history from its log in CloudWatch Logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.aws.log_events import LogPosition, pages, stream_names
from traingrid.backends.sagemaker.log import LOG_GROUP
from traingrid.metrics.points import LineReader, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(kw_only=True)
class MetricLog:
    """The log of one training job, and the position up to which it was read.

    Attributes:
        reader: Finds the values in a line.
    """

    training_job: str
    reader: LineReader
    _position: LogPosition = field(default_factory=dict)

    @classmethod
    def of(cls, training_job: str, metrics: Mapping[str, str]) -> MetricLog:
        """Return the log of a training job with these regular expressions."""
        return cls(training_job=training_job, reader=LineReader(metrics))

    def new_records(self, logs: Any) -> Iterator[Record]:
        """Yield the records of the lines since the last call, host by host.

        Args:
            logs: A client of CloudWatch Logs.

        Raises:
            ClientError: AWS refused a request.
        """
        for stream in stream_names(logs, LOG_GROUP, f"{self.training_job}/"):
            for events in pages(logs, LOG_GROUP, stream, self._position):
                for event in events:
                    record = self.reader.record(event.message, event.time)
                    if record:
                        yield record
