"""Candidates: the places in which a job may train, each a backend in a Region, in the order in which they are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traingrid.job.backend_traits import DEFAULT_BACKEND, TRAITS, BackendName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.job.job import Job


class Candidate(NamedTuple):
    """A place in which a job may train.

    Attributes:
        backend: The backend that runs the training job there.
    """

    region: str
    backend: BackendName = DEFAULT_BACKEND


def candidates_of(job: Job) -> tuple[Candidate, ...]:
    """Return the candidates of a job in the form for its first Region: each backend there, then the replicas'."""
    places = {job.region: job.backends} | {region: replica.backends for region, replica in job.replicas.items()}
    return tuple(Candidate(region, backend) for region, backends in places.items() for backend in backends)


def next_candidate(candidates: Sequence[Candidate], current: Candidate) -> Candidate:
    """Return the candidate after the current one; the first one follows the last one, and one that is not listed."""
    place = candidates.index(current) + 1 if current in candidates else 0
    return candidates[place % len(candidates)]


def sentence_part(candidate: Candidate, candidates: Sequence[Candidate]) -> str:
    """Return a candidate for a sentence, with its backend if the job may use another one than SageMaker.

    Args:
        candidates: All candidates of the job.
    """
    with_backend = any(other_candidate.backend != DEFAULT_BACKEND for other_candidate in candidates)
    return f"on {TRAITS[candidate.backend].title} in {candidate.region}" if with_backend else f"in {candidate.region}"


def place(region: str, backend: BackendName) -> str:
    """Return a place for a table: the Region, and the backend if it is not SageMaker."""
    return region if backend == DEFAULT_BACKEND else f"{region} {backend}"
