"""Metric log: reads the metrics of a training job without metric history from its log in CloudWatch Logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.submission.metric_points import LogReader, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOG_GROUP = "/aws/sagemaker/TrainingJobs"


@dataclass(kw_only=True)
class MetricLog:
    """The log of one training job, and the position up to which it was read.

    Attributes:
        training_job: The name of the training job.
        reader: Finds the values in a line.
    """

    training_job: str
    reader: LogReader
    _position: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, training_job: str, metrics: Mapping[str, str]) -> MetricLog:
        """Return the log of a training job with these regular expressions."""
        return cls(training_job=training_job, reader=LogReader(metrics))

    def new_records(self, logs: Any) -> Iterator[Record]:
        """Yield the records of the lines since the last call, host by host.

        Args:
            logs: A client of CloudWatch Logs.

        Raises:
            ClientError: AWS refused a request.
        """
        for stream in self._streams(logs):
            for event in self._new_events(logs, stream):
                record = self.reader.record(event["message"], event["timestamp"])
                if record:
                    yield record

    def _streams(self, logs: Any) -> list[str]:
        try:
            pages = logs.get_paginator("describe_log_streams").paginate(
                logGroupName=_LOG_GROUP, logStreamNamePrefix=f"{self.training_job}/"
            )
            return sorted(stream["logStreamName"] for page in pages for stream in page["logStreams"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return []  # the first training job that logs in a Region creates the log group
            raise

    def _new_events(self, logs: Any, stream: str) -> Iterator[dict[str, Any]]:
        """Yield the new events of a stream. A repeated token marks its end (GetLogEvents in the API reference)."""
        while True:
            request = {"logGroupName": _LOG_GROUP, "logStreamName": stream, "startFromHead": True}
            if stream in self._position:
                request["nextToken"] = self._position[stream]
            page = logs.get_log_events(**request)
            yield from page["events"]
            token = page["nextForwardToken"]
            if token == self._position.get(stream):
                return
            self._position[stream] = token
