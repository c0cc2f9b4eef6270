"""Metric points: the values of metrics over time, in parts of a history and in lines of a log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from traingrid.job.metrics import NAME_START, NUMBER, NUMBER_END
from traingrid.metrics.patterns import MetricPatterns, number, searched_part
from traingrid.strict_json import json_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_GAP = r"(?:-|\W{0,2}[^\w.+\u2212-])"  # without a sign or a decimal point, which belong to the number
# As in training_container/metric_history/line_reader.py; a test compares both. A position has no unit.
POSITIONS = {
    name: re.compile(
        rf"{NAME_START}{words}{_GAP}({NUMBER})(?! [0-9]{{3}}(?:$|[^\w/%:.]))(?:/|{NUMBER_END})", re.IGNORECASE
    )
    for name, words in (("step", "(?:global_)?step"), ("epoch", "epoch"))
}
"""The number after a word, as in epoch=3, "Epoch 3/20", "epoch: 3", "Step [100/200]" and "global_step 100", but not in
"step 5ms" or "step 1 000"."""
_MAX_METRICS, _MAX_NAME_LENGTH = 40, 255
"""SageMaker's limits (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AlgorithmSpecification.html and
API_MetricDefinition.html), which also bound a part that something else has written."""
_MAX_POSITION = 10**15
_MAX_VALUE = 1e126
"""The limit of DynamoDB's numbers, so that a curve and the last value in the ledger agree
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricPoint:
    """A value of a metric at one time.

    Attributes:
        index: The index of the job.
        region: The Region of the attempt.
        attempt: The number of the attempt, from 1.
        metric: The name of the metric.
        value: The value, a number between -1E126 and 1E126.
        step: The step in the same line of output; None if the line has none.
        epoch: The epoch in the same line; None if it has none.
        time: The time of the line, in UTC.
    """

    index: int
    region: str
    attempt: int
    metric: str
    value: float
    step: int | None
    epoch: int | None
    time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The values of one line of output.

    Attributes:
        time: The time of the line, in UTC.
        step: The step; None if the line has none.
        epoch: The epoch; None if the line has none.
        values: The values of metrics, by name.
    """

    time: datetime
    step: int | None
    epoch: int | None
    values: Mapping[str, float]


def records_of_part(content: bytes) -> Iterator[Record]:
    """Yield the records of a part. Skip malformed lines, because a script may write to the same prefix."""
    for line in content.splitlines():
        try:
            values_of_line = json_object(line)
            values = {name: float(value) for name, value in islice(values_of_line["metrics"].items(), _MAX_METRICS)}
            time = datetime.fromisoformat(values_of_line["time"]).astimezone(UTC)
            step, epoch = _whole_position(values_of_line.get("step")), _whole_position(values_of_line.get("epoch"))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue
        yield Record(time=time, step=step, epoch=epoch, values=_bounded(values))


def _whole_position(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MAX_POSITION else None


def _bounded(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that can be stored and drawn, which NaN and infinite ones cannot, and have usual names."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and abs(value) < _MAX_VALUE and len(name) <= _MAX_NAME_LENGTH
    }


class LineReader:
    """Reads the values of metrics from the lines of a log, as the training image does from its output.

    Args:
        metrics: The regular expression of each metric, by name. The first group is the value.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        self._patterns = MetricPatterns(metrics)

    def record(self, line: str, milliseconds: int) -> Record | None:
        """Return the record of a line; None if it has no value.

        Args:
            line: The line. Its first characters are used.
            milliseconds: Its time in milliseconds since 1970, as CloudWatch Logs returns it.
        """
        line = searched_part(line)
        values = _bounded(dict(self._patterns.matches(line)))
        if not values:
            return None
        return Record(
            time=datetime.fromtimestamp(milliseconds / 1000, UTC),
            step=_position("step", values, line),
            epoch=_position("epoch", values, line),
            values=values,
        )


def _position(name: str, values: Mapping[str, float], line: str) -> int | None:
    value = values.get(name)
    if value is None:
        match = POSITIONS[name].search(line)
        value = number(match[1]) if match else None
    return int(value) if value is not None and value.is_integer() and 0 <= value < _MAX_POSITION else None


def drop_superseded(runs: Iterable[list[Record]]) -> Iterator[Record]:
    """Yield the records of the runs of one attempt, without values that a later run has computed again.

    SageMaker runs an interrupted spot training again, from its last checkpoint. A metric's values of earlier runs are
    kept only up to the first step, or without steps the first epoch, that a later run reports for it. TensorBoard does
    the same (`purge_step`, https://pytorch.org/docs/stable/tensorboard.html). Values without step and epoch are all
    kept, and so are repeated steps of one run.

    Args:
        runs: The records of each run, oldest first.
    """
    first_positions: dict[tuple[str, str], int] = {}
    remaining: list[list[Record]] = []
    for run in reversed(list(runs)):
        shortened = [_without_repeated_values(record, first_positions) for record in run]
        remaining.append([record for record in shortened if record.values])
        for record in run:
            for kind, position in _positions(record):
                for name in record.values:
                    first_positions[name, kind] = min(position, first_positions.get((name, kind), position))
    for records in reversed(remaining):
        yield from records


def _positions(record: Record) -> list[tuple[str, int]]:
    """Return the step of a record, or its epoch if it has no step, with its kind."""
    if record.step is not None:
        return [("step", record.step)]
    return [("epoch", record.epoch)] if record.epoch is not None else []


def _without_repeated_values(record: Record, first: Mapping[tuple[str, str], int]) -> Record:
    """Return a record without the values that a later run has reported again.

    Args:
        first: The first position of all later runs, by metric and kind of position.
    """
    positions = _positions(record)
    if not first or not positions:
        return record
    ((kind, position),) = positions
    values = {
        name: value
        for name, value in record.values.items()
        if (name, kind) not in first or position < first[name, kind]
    }
    return Record(time=record.time, step=record.step, epoch=record.epoch, values=values)
