"""Waiting jobs of a queue: first in, first out, or ordered by share weights and by priority within each share."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Generic, TypeVar

from moto.batch.models import BatchBackend

T = TypeVar("T")
Weights = Mapping[str, float]


class WaitingJobs(Generic[T]):
    """Orders a queue's waiting jobs by share. A queue without shares has one share, named "".

    Batch also counts recent usage of a share (shareDecaySeconds); this class counts only running jobs.
    """

    def __init__(self) -> None:
        self._shares: dict[str, deque[tuple[int, T]]] = {}
        self._use_of_share: Counter[str] = Counter()

    def add(self, item: T, share: str = "", priority: int = 0) -> None:
        """Insert a job behind all jobs of its share that have the same or a higher priority."""
        jobs = self._shares.setdefault(share, deque())
        place = len(jobs)
        while place and jobs[place - 1][0] < priority:
            place -= 1
        jobs.insert(place, (priority, item))

    def shares(self, weights: Weights) -> list[str]:
        """Return the shares with waiting jobs in the order of service: least usage for its weight first."""
        return sorted(
            (share for share, jobs in self._shares.items() if jobs),
            key=lambda share: self._use_of_share[share] * weight_of(weights, share),
        )

    def first(self, share: str) -> T:
        """Return the next job of a share."""
        return self._shares[share][0][1]

    def remove_first(self, share: str) -> None:
        """Remove the next job of a share."""
        self._shares[share].popleft()

    def use(self, share: str, amount: int) -> None:
        """Add the usage of a started job to its share; a negative amount subtracts that of an ended job."""
        self._use_of_share[share] += amount


def weights_of(backend: BatchBackend, policy_arn: str | None) -> Weights:
    """Return the weight factors of a queue's scheduling policy. A lower factor gives more capacity; default 1."""
    policy = backend._scheduling_policies.get(policy_arn)  # moto has no public accessor for one policy
    shares = policy.fairshare_policy["shareDistribution"] if policy else []
    return {entry["shareIdentifier"]: float(entry.get("weightFactor") or 1.0) for entry in shares}


def weight_of(weights: Weights, share: str) -> float:
    """Return the factor of a share; the policy may list it by a prefix (API reference, ShareAttributes)."""
    if share in weights:
        return weights[share]
    prefixes = (factor for name, factor in weights.items() if name.endswith("*") and share.startswith(name[:-1]))
    return next(prefixes, 1.0)
