"""Job facts: the fields of a job's item that processes record while its training job is launched and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.job.state import JobState


class CheckpointFacts(TypedDict, total=False):
    """The checkpoints of an attempt; `traingrid.ledger.items.RecordedAttempt` describes the fields."""

    checkpoint_from: str
    checkpoint_bytes: int
    checkpoint_dollars: float
    checkpoint_note: str
    residency: tuple[str, ...]


class JobFacts(CheckpointFacts, total=False):
    """The fields to record; `traingrid.ledger.items.JobItem` describes them. Omitted fields do not change."""

    state: JobState
    phase: str
    phase_at: int
    batch_child: str
    fingerprint: str
    training_job: str
    training_job_arn: str
    service_job: str
    failure: str
    stopped_for: str
    next_region: str
    reason: str
    artifact: str
    metrics: Mapping[str, float]
    progress: Mapping[str, float]
    epochs: int
    training_started_at: int
    training_seconds: int
    billable_seconds: int
