"""Verdict: whether rounds of a measurement meet a target, or are too noisy to decide. Does not import TensorFlow."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A confidence interval of a median.

    Attributes:
        median: The median of the rounds.
        confidence: The probability that such an interval contains the median of all possible rounds.
    """

    median: float
    low: float
    high: float
    confidence: float


def interval(rounds: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the narrowest interval between two rounds, equally far from both ends, with at least this confidence.

    It assumes no distribution: the k-th smallest of n rounds exceeds the true median if fewer than k of them are below
    it, which has the probability of fewer than k heads in n tosses of a coin (the sign test). With fewer than six
    rounds no interval has 95 %; then it is the whole range, with its own confidence.
    """
    ordered, count = sorted(rounds), len(rounds)
    best = max((k for k in range(1, count // 2 + 1) if _confidence(k, count) >= confidence), default=1)
    return Interval(
        median=statistics.median(ordered),
        low=ordered[best - 1],
        high=ordered[count - best],
        confidence=round(_confidence(best, count), 4),
    )


def _confidence(k: int, count: int) -> float:
    fewer: int = sum(math.comb(count, heads) for heads in range(k))
    return 1.0 - fewer / float(2 ** (count - 1))


def verdict(found: Interval, sense: Literal[">=", "<="], aim: float) -> Literal["yes", "no", "undecided"]:
    """Return "yes" or "no" if the whole interval is on one side of the target, otherwise "undecided".

    Too few rounds for an interval of CONFIDENCE decide nothing.
    """
    if found.confidence < CONFIDENCE:
        return "undecided"
    low, high = (found.low, found.high) if sense == ">=" else (-found.high, -found.low)
    limit = aim if sense == ">=" else -aim
    if low >= limit:
        return "yes"
    return "no" if high < limit else "undecided"
