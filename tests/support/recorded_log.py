"""Recorded log: a logging handler for tests that keeps the fields of each record, with those of its context."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from traingrid.log import ContextFilter, JsonFormatter


class RecordedLog(logging.Handler):
    """The log lines of traingrid's loggers, in order."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(JsonFormatter())
        self.addFilter(ContextFilter())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line that a child would write."""
        self.lines.append(json.loads(self.format(record)))

    @property
    def messages(self) -> list[str]:
        """The messages of all lines."""
        return [line["message"] for line in self.lines]

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of one kind of event."""
        return [line for line in self.lines if line.get("event") == event]


@contextmanager
def recorded_log(level: int = logging.INFO) -> Iterator[RecordedLog]:
    """Record the log lines of a level or above."""
    logger, log = logging.getLogger("traingrid"), RecordedLog()
    before = logger.level
    logger.addHandler(log)
    logger.setLevel(level)
    try:
        yield log
    finally:
        logger.removeHandler(log)
        logger.setLevel(before)
