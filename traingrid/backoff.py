"""Waits: computes waiting times in seconds from ages and counts, without side effects."""

from __future__ import annotations

import random

# The interval between two reads of the ledger: short for a new training job, so that quick runs and early failures are
# detected at once, and longer later.
_MIN_LOOK, _MAX_LOOK, _LOOK_PER_AGE = 1.0, 60.0, 1 / 60

VISIBLE_WITHIN = 60.0
"""The time for which DescribeTrainingJob may not find a new training job. AWS documents no value; children wait this
long before they conclude that a training job was not created."""

OUTAGE_CAP, QUOTA_CAP, PAUSE_CAP = 60.0, 600.0, 60.0
"""The maximum waits before the next call to an unreachable service, before the next attempt after a quota or capacity
error, and before a paused child checks whether it may launch."""

PASS_SECONDS = 300
"""The interval between two passes of the reconciler (stacks/reconciler.py)."""


def look_seconds(age: float) -> float:
    """Return the wait before the next check of a job that has been watched for `age` seconds."""
    return min(max(age * _LOOK_PER_AGE, _MIN_LOOK), _MAX_LOOK)


def backoff_seconds(tries: int, cap: float) -> float:
    """Return the wait after a number of failed attempts (from 1): exponential from two seconds, half of it random.

    The jitter prevents ten thousand children that were refused at the same time from retrying at the same time
    (https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
    """
    longest = min(2.0 ** min(tries, 30), cap)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # not used for cryptography
