"""Facts that callers of the ledger record: typed fields of its items, and the claim of a submission."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Required, TypedDict

from traingrid.job.facts import CheckpointFacts
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from traingrid.job.backend_traits import BackendName


class SubmissionFacts(TypedDict, total=False):
    """The fields of a submission's item that its claimant records; `SubmissionItem` describes them."""

    state: str
    manifest: str
    version: str | None
    sha256: str
    jobs: int
    batch_job: str
    submitted_at: str
    arrays: list[dict[str, Any]]
    claim_ends_at: int
    uploaded_at: str
    budget_dollars: float


class Pace(TypedDict, total=False):
    """How far an attempt has trained; `RecordedAttempt` describes the fields."""

    epoch: int
    epoch_seconds: float


class AttemptFacts(Pace, CheckpointFacts, total=False):
    """The outcome of an attempt, which the list `tried` keeps; `RecordedAttempt` describes the fields."""

    region: Required[str]
    state: Required[JobState]
    failure: str
    reason: str
    training_job: str
    artifact: str
    billable_seconds: int
    on_demand: bool
    backend: BackendName
    ended_at: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A request's claim of a submission that it is submitting.

    Attributes:
        owner: The name of the request.
        ends_at: The time in seconds since 1970 at which the request has certainly ended and its claim expires.
    """

    owner: str
    ends_at: int
    seconds: float = 0.0
