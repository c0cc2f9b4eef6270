"""How long to wait for what: pure functions of ages and counts, in seconds."""

from __future__ import annotations

import random

# Between two looks at the ledger: short while a training job is young, so that quick runs and early failures show at
# once, and rare later.
_SHORTEST_LOOK, _LONGEST_LOOK, _LOOK_PER_AGE = 1.0, 60.0, 1 / 60

VISIBLE_WITHIN = 60.0
"""For so long a training job that was just created may be unknown to DescribeTrainingJob. AWS documents no figure; the
children of traingrid wait that long before they believe that a job which may have been created was not."""

OUTAGE_CAP, QUOTA_CAP, PAUSE_CAP = 60.0, 600.0, 60.0
"""Longest waits: until an unreachable service is asked again, until a quota or a Region without capacity is, and until
a child that must not launch anything looks whether it may."""

SWEEP_SECONDS = 300
"""How often the reconciler looks (stacks/reconciler.py)."""


def look_seconds(age: float) -> float:
    """Return how long to wait until the next look at a job that is watched for `age` seconds."""
    return min(max(age * _LOOK_PER_AGE, _SHORTEST_LOOK), _LONGEST_LOOK)


def backoff_seconds(tries: int, cap: float) -> float:
    """Return how long to wait after so many tries in vain (from 1): doubling from two seconds, half of it by chance.

    The chance keeps ten thousand children that were refused at once from coming back at once
    (https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
    """
    longest = min(2.0 ** min(tries, 30), cap)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # no secret hangs on it
