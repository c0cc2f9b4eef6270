"""A log for machines that a person can still read: one JSON object per line, whose sentence comes first.

Names and times are those of Lambda's own JSON format
(https://docs.aws.amazon.com/lambda/latest/dg/python-logging.html#python-logging-advanced), so that one query reads
the logs of functions and of children.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Protocol

TRAINING = "training"
"""The event of a line that the training itself has printed."""


class Say(Protocol):
    """Takes what a process has to say: a sentence for the person who reads the log, and facts for who searches it."""

    def __call__(self, sentence: str, **facts: Any) -> None:
        """Say it; `event` is the fact that tells what kind of sentence it is."""


def log_line(sentence: str, /, *, level: str = "INFO", **facts: Any) -> str:
    """Return a line of a log.

    Args:
        sentence: What happened, for a person.
        level: INFO or ERROR.
        facts: What else is known, by names that all lines share: event, submission, index, attempt, training_job,
            region, batch_child, failure. What is empty is left out.
    """
    known = {name: value for name, value in facts.items() if value not in ("", None)}
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"message": sentence, "level": level, **known, "timestamp": now}
    return json.dumps(line, ensure_ascii=False, default=str)


def readable(line: str) -> str:
    """Return a line of a log as a person reads it: when, and the sentence; a line that is no JSON of ours as it is."""
    try:
        said = json.loads(line)
        text = f"{said['timestamp']} {said['message']}"
    except (ValueError, TypeError, KeyError):
        return line
    return "\n".join([text, *(str(where).rstrip() for where in said.get("stack_trace", ()))])
