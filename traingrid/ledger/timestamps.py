"""Timestamps: the ledger's format of times, which is UTC, ISO 8601, in whole seconds."""

from __future__ import annotations

import time
from datetime import datetime

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def now() -> str:
    """Return the current time as a timestamp."""
    return time.strftime(_FORMAT, time.gmtime())


def timestamp(seconds: float) -> str:
    """Return seconds since 1970 as a timestamp."""
    return time.strftime(_FORMAT, time.gmtime(seconds))


def epoch_seconds(timestamp: str) -> int:
    """Return a timestamp as seconds since 1970."""
    return int(datetime.fromisoformat(timestamp).timestamp())
