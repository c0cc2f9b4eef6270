"""What waits in a queue: first come, first served, or by the weights of shares and by priority within each."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Generic, TypeVar

from moto.batch.models import BatchBackend

T = TypeVar("T")
Weights = Mapping[str, float]


class Waiting(Generic[T]):
    """A queue's waiting jobs, by share. A queue without shares is one share, called "".

    Batch also counts what a share used a while ago (shareDecaySeconds); here it is what runs now.
    """

    def __init__(self) -> None:
        self._shares: dict[str, deque[tuple[int, T]]] = {}
        self._used: Counter[str] = Counter()

    def add(self, item: T, share: str = "", priority: int = 0) -> None:
        """Put a job behind all of its share that have the same priority or a higher one."""
        jobs = self._shares.setdefault(share, deque())
        place = len(jobs)
        while place and jobs[place - 1][0] < priority:
            place -= 1
        jobs.insert(place, (priority, item))

    def shares(self, weights: Weights) -> list[str]:
        """The shares that have waiting jobs, in the order in which they are served: the least used for its weight."""
        return sorted(
            (share for share, jobs in self._shares.items() if jobs),
            key=lambda share: self._used[share] * weight_of(weights, share),
        )

    def first(self, share: str) -> T:
        """The next job of a share."""
        return self._shares[share][0][1]

    def remove_first(self, share: str) -> None:
        """It waits no longer."""
        self._shares[share].popleft()

    def use(self, share: str, amount: int) -> None:
        """A job of a share has started, or, with a negative amount, has ended."""
        self._used[share] += amount


def weights_of(backend: BatchBackend, policy_arn: str | None) -> Weights:
    """The weight factors of a queue's scheduling policy: the lower, the more; a share that is not listed has 1."""
    policy = backend._scheduling_policies.get(policy_arn)  # moto has no other way to one
    listed = policy.fairshare_policy["shareDistribution"] if policy else []
    return {entry["shareIdentifier"]: float(entry.get("weightFactor") or 1.0) for entry in listed}


def weight_of(weights: Weights, share: str) -> float:
    """The factor of a share; one may be listed by how it begins (API reference, ShareAttributes)."""
    if share in weights:
        return weights[share]
    prefixes = (factor for name, factor in weights.items() if name.endswith("*") and share.startswith(name[:-1]))
    return next(prefixes, 1.0)
