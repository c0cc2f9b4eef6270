"""Log lines: one JSON object per line, which begins with the message so that a person can read it.

Field names and timestamps are those of Lambda's own JSON format
(https://docs.aws.amazon.com/lambda/latest/dg/python-logging.html#python-logging-advanced), so that one query can read
the logs of functions and of children.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Protocol

TRAINING = "training"
"""The event of a line that the training program printed."""


class Say(Protocol):
    """Logs a sentence for a person, with fields for queries."""

    def __call__(self, sentence: str, **facts: Any) -> None:
        """Log the sentence; the field `event` classifies it."""


def log_line(sentence: str, /, *, level: str = "INFO", **facts: Any) -> str:
    """Return a log line.

    Args:
        sentence: The message for a person.
        level: INFO or ERROR.
        facts: Additional fields, with names that all lines share: event, submission, index, attempt, training_job,
            region, batch_child, failure. Empty fields are omitted.
    """
    known = {name: value for name, value in facts.items() if value not in ("", None)}
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"message": sentence, "level": level, **known, "timestamp": now}
    return json.dumps(line, ensure_ascii=False, default=str)


def readable(line: str) -> str:
    """Return a log line as text with timestamp, message and stack trace; a line in another format is unchanged."""
    try:
        said = json.loads(line)
        text = f"{said['timestamp']} {said['message']}"
    except (ValueError, TypeError, KeyError):
        return line
    return "\n".join([text, *(str(where).rstrip() for where in said.get("stack_trace", ()))])
