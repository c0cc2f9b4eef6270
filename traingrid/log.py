"""Logging: JSON log lines, the fields that all lines of a scope share, and the set-up of the child and the CLI.

Modules log with `logging.getLogger(__name__)` and pass fields in `extra`. The field names, and the form of timestamps
and exceptions, are those of Lambda's own JSON format
(https://docs.aws.amazon.com/lambda/latest/dg/python-logging.html#python-logging-advanced), so that one query can read
the logs of functions and of children. In a function, Lambda's own handler writes the records.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traingrid.errors import UsageError
from traingrid.strict_json import JsonError, json_object
from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TRAINING = "training"
"""The event of a line that the training program printed."""

LEVEL_VARIABLE = "TRAINGRID_LOG_LEVEL"
"""The environment variable with the lowest level that a child logs."""

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_RETRY_LOGGERS = ("botocore.retries", "botocore.retryhandler")
"""botocore's loggers of retries and delays, which log neither requests nor responses. Its other loggers write signed
headers (botocore.auth, botocore.endpoint) and responses with credentials (botocore.parsers) at DEBUG, so they stay at
WARNING (https://docs.aws.amazon.com/boto3/latest/reference/core/boto3.html#boto3.set_stream_logger)."""

_LIBRARIES = ("boto3", "botocore", "s3transfer", "urllib3")

_STANDARD_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_RENAMED = {"job_name": "name"}
"""Fields whose name in a log line cannot be used in `extra`, because it is an attribute of every record."""

_context: ContextVar[Mapping[str, Any]] = ContextVar("log_context", default={})  # noqa: B039 - it is never changed


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Add fields to all records of this thread that are logged in a `with` block.

    A new thread starts without fields; `contextvars.copy_context().run` passes them on.

    Args:
        fields: Fields by name. They replace fields of enclosing blocks; a record's own `extra` has precedence.
    """
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def extend_log_context(**fields: Any) -> None:
    """Add fields to the records that follow, until the innermost `log_context` block ends."""
    _context.set({**_context.get(), **fields})


class ContextFilter(logging.Filter):
    """Adds the fields of the log context to the records of a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields that the record does not have; keep every record."""
        for name, value in _context.get().items():
            if name not in vars(record):
                setattr(record, name, value)
        return True


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object on one line, which begins with the message so that a person can read it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; fields with the value None or "" are omitted."""
        fields = {_RENAMED.get(name, name): value for name, value in vars(record).items() if _is_field(name, value)}
        line = {"message": record.getMessage(), "level": record.levelname, "logger": record.name, **fields}
        if record.exc_info and record.exc_info[1]:
            kind, error, trace = record.exc_info
            line |= {"errorType": kind.__name__, "errorMessage": str(error), "stackTrace": traceback.format_tb(trace)}
        time_text = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({**line, "timestamp": time_text.replace("+00:00", "Z")}, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record as text for a terminal, with control characters as escapes."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger and message, and the traceback of an exception."""
        lines = super().format(record).split("\n")
        return "\n".join(printable(line) for line in lines)


def configure_child(environment: Mapping[str, str]) -> None:
    """Write records as JSON lines: errors to stderr, others to stdout; both streams of a container form one log.

    Args:
        environment: TRAINGRID_LOG_LEVEL is the lowest level to log, by default INFO.

    Raises:
        UsageError: TRAINGRID_LOG_LEVEL is not a level. Records are written nevertheless, at the default level.
    """
    output, errors = logging.StreamHandler(sys.stdout), logging.StreamHandler(sys.stderr)
    output.addFilter(lambda record: record.levelno < logging.ERROR)
    errors.setLevel(logging.ERROR)
    _configure([output, errors], JsonFormatter(), "INFO")
    level = environment.get(LEVEL_VARIABLE) or "INFO"
    if level not in _LEVELS:
        message = f"The environment variable {LEVEL_VARIABLE} has the value {printable(level)!r}, which is not a level."
        raise UsageError(message, f"Set it to one of {', '.join(_LEVELS)}, or remove it for INFO.")
    _set_level(level)


def configure_function() -> None:
    """Omit the records of libraries below WARNING, for example of each credential and endpoint that botocore finds.

    Lambda's runtime has set the root logger to the level of the function's LoggingConfig, which is INFO.
    """
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


def configure_cli(*, verbose: bool = False, debug: bool = False) -> None:
    """Write records as text to stderr.

    Args:
        verbose: Whether to write INFO; otherwise only WARNING and ERROR.
        debug: Whether to write DEBUG, and the retries of AWS requests.
    """
    level = "INFO" if verbose else "WARNING"
    if debug:
        level = "DEBUG"
    handler = logging.StreamHandler(sys.stderr)
    _configure([handler], TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"), level)


def readable(line: str) -> str:
    """Return a log line as text with timestamp, message and stack trace; a line in another format is unchanged."""
    try:
        record = json_object(line)
        text = f"{record['timestamp']} {record['message']}"
    except (JsonError, KeyError):
        return line
    trace = record.get("stack_trace") or record.get("stackTrace")
    trace = trace if isinstance(trace, list) else ()
    return "\n".join([text, *(str(frame).rstrip() for frame in trace)])


def _is_field(name: str, value: Any) -> bool:
    return name not in _STANDARD_ATTRIBUTES and value not in ("", None)


def _configure(handlers: list[logging.StreamHandler[Any]], formatter: logging.Formatter, level: str) -> None:
    """Add handlers to the root logger instead of earlier ones of this module, and set the level of our loggers."""
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old.formatter, JsonFormatter | TextFormatter):
            root.removeHandler(old)
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(ContextFilter())
        root.addHandler(handler)
    _set_level(level)


def _set_level(level: str) -> None:
    logging.getLogger("traingrid").setLevel(level)
    for name in _RETRY_LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG if level == "DEBUG" else logging.NOTSET)
