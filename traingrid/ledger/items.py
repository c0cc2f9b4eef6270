"""Ledger items of jobs, as frozen values.

Only `from_item` of each class knows the format of stored items. It ignores unknown fields, because older and newer
versions of traingrid share a table, and applies the defaults of fields that are not stored. A text that is not stored
is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

from traingrid.job.backend_traits import DEFAULT_BACKEND, TRAITS
from traingrid.job.candidates import Candidate
from traingrid.job.state import UNLAUNCHED_STATES, JobState
from traingrid.late_request import CREATES_END_SECONDS
from traingrid.ledger.errors import JOB_PREFIX as JOB_PREFIX  # noqa: PLC0414  # the keys of jobs are defined here
from traingrid.ledger.errors import ItemError, job_index
from traingrid.ledger.field_types import (
    ATTEMPT,
    BYTES,
    COUNT,
    DOLLARS,
    FLAG,
    MAPS,
    METRICS,
    PAST,
    SECONDS,
    TEXT,
    TEXT_SET,
    TEXTS,
    TIME,
    TIME_OR_EMPTY,
    check_types,
    optional,
)
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from traingrid.job.backend_traits import BackendName
    from traingrid.job.facts import CheckpointFacts

Line = tuple[str, int]
"""A line of a submission: the submission's id and the index of the job."""
SUBMISSION = "submission"
"""The sort key of a submission."""
_BACKEND = (f"one of {', '.join(TRAITS)}", lambda value: isinstance(value, str) and value in TRAITS)
_ATTEMPT_TYPES = {
    **dict.fromkeys(("region", "state", "failure", "reason", "training_job", "training_job_arn", "reopened"), TEXT),
    "attempt": ATTEMPT,
    "artifact": optional(TEXT),
    "billable_seconds": optional(SECONDS),
    "epoch": COUNT,
    "epoch_seconds": SECONDS,
    "on_demand": FLAG,
    "backend": _BACKEND,
    "ended_at": TIME_OR_EMPTY,
    **dict.fromkeys(("checkpoint_from", "checkpoint_note"), TEXT),
    "checkpoint_bytes": BYTES,
    "checkpoint_dollars": DOLLARS,
    "residency": TEXTS,
}
CHECKPOINT_FIELDS = ("checkpoint_from", "checkpoint_bytes", "checkpoint_dollars", "checkpoint_note")
"""The fields of the checkpoint with which an attempt begins."""
_JOB_TYPES = {
    **_ATTEMPT_TYPES,
    **dict.fromkeys(("name", "array_file", "batch_child", "phase", "service_job", "fingerprint"), TEXT),
    **dict.fromkeys(("stopped_for", "next_region"), TEXT),
    "opened_at": TIME,
    **dict.fromkeys(("updated_at", "requested_at"), TIME_OR_EMPTY),
    "open_requests": TEXT_SET,
    "tried": MAPS,
    **dict.fromkeys(("line", "ranks", "epochs"), COUNT),
    **dict.fromkeys(("phase_at", "training_started_at"), PAST),
    "training_seconds": SECONDS,
    **dict.fromkeys(("hourly_dollars", "running_hourly_dollars"), DOLLARS),
    **dict.fromkeys(("progress", "metrics"), METRICS),
    "regions": TEXTS,
    "has_no_model": FLAG,
}
_REQUIRED = ("submission", "item", "attempt", "state", "name", "region", "opened_at")


def job_item(index: int) -> str:
    """Return the sort key of a job, padded with zeros so that jobs sort by index."""
    return f"{JOB_PREFIX}{index:05d}"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobKey:
    """An attempt of a job.

    Attributes:
        attempt: The number of the attempt, from 1.
    """

    submission: str
    index: int
    attempt: int

    @property
    def table_key(self) -> tuple[str, str]:
        """The keys of the job's item in the table, which all attempts share."""
        return self.submission, job_item(self.index)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedAttempt:
    """An attempt of a job as the ledger records it: an entry of `tried`, or the fields of the current attempt.

    Attributes:
        attempt: Its number, from 1.
        failure: The name of its failure class (`traingrid.job.failures`).
        reason: The reason why it failed or was stopped, as a sentence.
        training_job_arn: The ARN of its training job; not stored for earlier attempts.
        artifact: The S3 URI of the model; None if it is not stored.
        billable_seconds: The billable time in seconds; None if it is not stored.
        on_demand: True if it used on-demand instances although the line has `spot`.
        epoch: The last epoch that it reported; 0 if it is not stored.
        epoch_seconds: The seconds that an epoch of it took; 0 if they are not stored.
        backend: The service that ran it; `sagemaker` if it is not stored.
        reopened: The unique value of the user's retry that ended it; empty if traingrid retried it.
        ended_at: The time at which the ledger recorded its end; empty for the current attempt, and if it is not stored.
        checkpoint_from: The Region from which its checkpoint was copied; empty if none was.
        checkpoint_bytes: The size of that copy in bytes.
        checkpoint_dollars: The estimated cost of its transfer.
        checkpoint_note: The checkpoint with which it began after a move, or the reason why it began without one, as a
            sentence; empty if it did not move.
        residency: The geographies and Regions in which its checkpoints may be; empty if its line has no residency.
    """

    attempt: int
    region: str
    state: JobState
    failure: str = ""
    reason: str = ""
    training_job: str = ""
    training_job_arn: str = ""
    artifact: str | None = None
    billable_seconds: int | None = None
    epoch: int = 0
    epoch_seconds: float = 0.0
    on_demand: bool = False
    backend: BackendName = DEFAULT_BACKEND
    reopened: str = ""
    ended_at: str = ""
    checkpoint_from: str = ""
    checkpoint_bytes: int = 0
    checkpoint_dollars: float = 0.0
    checkpoint_note: str = ""
    residency: tuple[str, ...] = ()

    @property
    def candidate(self) -> Candidate:
        """The place in which it ran."""
        return Candidate(self.region, self.backend)

    @property
    def may_have_trained(self) -> bool:
        """True unless it certainly wrote no checkpoint: it had no training job, or one without instances."""
        return bool(self.training_job) and self.billable_seconds != 0

    @property
    def checkpoint_sentence(self) -> str:
        """The note about its checkpoint, with the cost of the copy."""
        cost = f" Its transfer costs about ${self.checkpoint_dollars:,.4f}." if self.checkpoint_from else ""
        return f"{self.checkpoint_note}{cost}"

    @classmethod
    def from_entry(cls, item: Mapping[str, Any], entry: Mapping[str, Any]) -> Self:
        """Return an earlier attempt of a stored item.

        Args:
            item: The job's item, which an error names.
            entry: The entry of its `tried`.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        check_types(item, _ATTEMPT_TYPES, entry, prefix="tried[].", required=("attempt", "region", "state"))
        return cls(
            attempt=entry["attempt"],
            region=entry["region"],
            state=JobState(entry["state"]),
            failure=entry.get("failure", ""),
            reason=entry.get("reason", ""),
            training_job=entry.get("training_job", ""),
            training_job_arn=entry.get("training_job_arn", ""),
            artifact=entry.get("artifact"),
            billable_seconds=entry.get("billable_seconds"),
            epoch=entry.get("epoch", 0),
            epoch_seconds=entry.get("epoch_seconds", 0.0),
            on_demand=entry.get("on_demand", False),
            backend=entry.get("backend", DEFAULT_BACKEND),
            reopened=entry.get("reopened", ""),
            ended_at=entry.get("ended_at", ""),
            **{name: entry[name] for name in CHECKPOINT_FIELDS if name in entry},
            residency=tuple(entry.get("residency", ())),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JobItem:
    """A job.

    Attributes:
        index: The job's index in the submission, from 0.
        attempt: The number of the current attempt, from 1.
        state: The state of the current attempt.
        name: The job's name in the manifest.
        line: The job's line in the manifest, from 1; 0 if it is not stored.
        region: The Region of the current attempt.
        backend: The service that runs the current attempt; `sagemaker` if it is not stored.
        regions: The Regions in which the job may train, in order; only `region` if a version without replicas
            opened the job.
        opened_at: The time at which the current attempt was opened.
        updated_at: The time of the last change other than progress; empty if the job has not changed since a child
            opened it.
        ranks: The world size; 0 if it is not stored.
        array_file: The name of the file whose children may launch the current attempt (`files.array_file`); empty for
            an item of an older version, which the children of any array may launch.
        batch_child: The id of the Batch child that watches the current attempt; empty if none does.
        phase: SageMaker's secondary status, or a phase of the launch; empty after a rejected request.
        phase_at: The time in seconds since 1970 at which SageMaker's secondary status began; 0 if it is not recorded.
        training_job: The name of the training job, from just before it is requested.
        training_job_arn: The ARN of the training job, once a process has seen it.
        on_demand: True if the current attempt uses on-demand instances although the line has `spot`.
        service_job: The id of the service job that queues the training job; empty if it was created directly.
        fingerprint: The fingerprint of the request, once a child has claimed the attempt.
        requested_at: The time at which a child last claimed the current attempt; empty before the first claim.
        open_requests: The names of the requests for the training job whose answers no child has recorded.
        residency: The geographies and Regions in which the data and the model of the current attempt may be; empty if
            its line has no residency, or a version before `init_from` launched it.
        failure: The name of the failure class (`traingrid.job.failures`).
        reason: The reason of the failure, or why the job cannot start yet, as a sentence.
        stopped_for: The name of the failure class for which traingrid stops the training job, one of `EARLY_STOPS`;
            empty if it does not.
        next_region: The Region of the next attempt, if it is decided with `stopped_for`; otherwise empty.
        artifact: The S3 URI of the model, once the job has ended.
        has_no_model: Whether nothing is at this URI, because the program wrote no model.
        progress: The last values of the metrics while the job trains.
        epoch_seconds: The seconds that an epoch takes, measured while the job trains; 0 if they are not known.
        metrics: The last values of the metrics, once the job has ended.
        epochs: The number of epochs that the training runs, from its hyperparameters; 0 if they do not have it.
        training_started_at: The time at which the training job started on its instances, in seconds since 1970; 0 if
            it is not recorded.
        training_seconds: The training time in seconds, once the job has ended; otherwise 0.
        billable_seconds: The billable time in seconds, once the job has ended; otherwise 0.
        hourly_dollars: The price on demand of an hour of all its instances; 0 for a submission without a budget.
        running_hourly_dollars: The expected price of that hour while it runs, which is less for spot instances.
        checkpoint_from: See `RecordedAttempt`; the other three, too.
        tried: The earlier attempts, oldest first.
        stored: The names of the stored fields, for a reader that must distinguish a default from a stored value.
    """

    submission: str
    index: int
    attempt: int
    state: JobState
    name: str
    region: str
    regions: tuple[str, ...]
    opened_at: str
    backend: BackendName = DEFAULT_BACKEND
    updated_at: str = ""
    line: int = 0
    ranks: int = 0
    array_file: str = ""
    batch_child: str = ""
    phase: str = ""
    phase_at: int = 0
    training_job: str = ""
    training_job_arn: str = ""
    on_demand: bool = False
    service_job: str = ""
    fingerprint: str = ""
    requested_at: str = ""
    open_requests: frozenset[str] = frozenset()
    residency: tuple[str, ...] = ()
    failure: str = ""
    reason: str = ""
    stopped_for: str = ""
    next_region: str = ""
    artifact: str = ""
    has_no_model: bool = False
    progress: Mapping[str, float] = field(default_factory=dict)
    epoch_seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    epochs: int = 0
    training_started_at: int = 0
    training_seconds: int = 0
    billable_seconds: int = 0
    hourly_dollars: float = 0.0
    running_hourly_dollars: float = 0.0
    checkpoint_from: str = ""
    checkpoint_bytes: int = 0
    checkpoint_dollars: float = 0.0
    checkpoint_note: str = ""
    tried: tuple[RecordedAttempt, ...] = ()
    stored: frozenset[str] = frozenset()

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the job of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        get = item.get
        check_types(item, _JOB_TYPES, required=_REQUIRED)
        if "open_requests" in item and not get("requested_at"):
            raise ItemError(item, "requested_at")
        return cls(
            submission=item["submission"],
            index=index_of(item),
            attempt=item["attempt"],
            state=JobState(item["state"]),
            name=item["name"],
            region=item["region"],
            regions=tuple(get("regions") or (item["region"],)),
            opened_at=item["opened_at"],
            backend=get("backend", DEFAULT_BACKEND),
            updated_at=get("updated_at", ""),
            line=get("line", 0),
            ranks=get("ranks", 0),
            array_file=get("array_file", ""),
            batch_child=get("batch_child", ""),
            phase=get("phase", ""),
            phase_at=get("phase_at", 0),
            training_job=get("training_job", ""),
            training_job_arn=get("training_job_arn", ""),
            on_demand=get("on_demand", False),
            service_job=get("service_job", ""),
            fingerprint=get("fingerprint", ""),
            requested_at=get("requested_at", ""),
            open_requests=frozenset(get("open_requests", ())),
            residency=tuple(get("residency", ())),
            failure=get("failure", ""),
            reason=get("reason", ""),
            stopped_for=get("stopped_for", ""),
            next_region=get("next_region", ""),
            artifact=get("artifact", ""),
            has_no_model=get("has_no_model", False),
            progress=get("progress", {}),
            epoch_seconds=get("epoch_seconds", 0.0),
            metrics=get("metrics", {}),
            epochs=get("epochs", 0),
            training_started_at=get("training_started_at", 0),
            training_seconds=get("training_seconds", 0),
            billable_seconds=get("billable_seconds", 0),
            hourly_dollars=get("hourly_dollars", 0.0),
            running_hourly_dollars=get("running_hourly_dollars", 0.0),
            **{name: item[name] for name in CHECKPOINT_FIELDS if name in item},
            tried=tuple(RecordedAttempt.from_entry(item, entry) for entry in get("tried", ())),
            stored=frozenset(item),
        )

    @property
    def key(self) -> JobKey:
        """The key of the current attempt."""
        return JobKey(submission=self.submission, index=self.index, attempt=self.attempt)

    @property
    def candidate(self) -> Candidate:
        """The place of the current attempt."""
        return Candidate(self.region, self.backend)

    @property
    def was_seen(self) -> bool:
        """True if the ledger has recorded the training job of the current attempt, even if it was deleted since."""
        return self.state not in UNLAUNCHED_STATES or bool(self.training_job_arn)

    @property
    def is_unrequested(self) -> bool:
        """True if no training job of the current attempt exists or may still be created: each request was refused."""
        return not self.training_job or not (self.was_seen or self.phase or self.open_requests)

    @property
    def may_have_trained(self) -> bool:
        """True if the training job of the current attempt has, or had, its instances."""
        return bool(self.training_started_at or self.progress or self.billable_seconds)

    @property
    def creates_end_at(self) -> float:
        """The time in seconds since 1970 from which on no training job of the current attempt can be created any more.

        0 if none can now: each request was answered, or a service that keeps training jobs has had one with the name.
        """
        if not self.open_requests or (self.training_job_arn and TRAITS[self.backend].keeps_jobs):
            return 0.0
        return epoch_seconds(self.requested_at) + CREATES_END_SECONDS

    @property
    def changed_at(self) -> int:
        """The time of the last change other than progress, in seconds since 1970."""
        return epoch_seconds(max(self.updated_at, self.opened_at))

    @property
    def failures_since_retry(self) -> list[str]:
        """The failure classes of the earlier attempts, oldest first, without those before a user's retry."""
        return [previous.failure for previous in self._tried_since_retry]

    @property
    def tried_since_retry(self) -> list[Candidate]:
        """The places of the earlier attempts, oldest first, without those before a user's retry."""
        return [previous.candidate for previous in self._tried_since_retry]

    @property
    def _tried_since_retry(self) -> list[RecordedAttempt]:
        attempts: list[RecordedAttempt] = []
        for previous in self.tried:
            attempts = [] if previous.reopened else [*attempts, previous]
        return attempts

    def is_of_array(self, array_file: str) -> bool:
        """Return True if the children of an array may launch the current attempt; a retry assigns another array.

        Args:
            array_file: The array's file (`traingrid.submission.files.array_file`); empty for a caller without array.
        """
        return not array_file or self.array_file in ("", array_file)

    def fields(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the given fields and their values, without those that are not stored."""
        return {name: getattr(self, name) for name in names if name in self.stored}

    @property
    def model(self) -> str:
        """The S3 URI of the model; empty if there is none."""
        return "" if self.has_no_model else self.artifact

    @property
    def checkpoint_facts(self) -> CheckpointFacts:
        """The stored fields about the checkpoint with which the current attempt begins, and those that it saves."""
        return cast("CheckpointFacts", self.fields((*CHECKPOINT_FIELDS, "residency")))

    def attempts(self) -> dict[int, RecordedAttempt]:
        """Return all attempts by their number."""
        current = RecordedAttempt(
            attempt=self.attempt,
            region=self.region,
            state=self.state,
            failure=self.failure,
            reason=self.reason,
            training_job=self.training_job,
            training_job_arn=self.training_job_arn,
            artifact=self.artifact if "artifact" in self.stored else None,
            billable_seconds=self.billable_seconds if "billable_seconds" in self.stored else None,
            on_demand=self.on_demand,
            backend=self.backend,
            **self.checkpoint_facts,
        )
        return {attempt.attempt: attempt for attempt in (*self.tried, current)}


def index_of(item: Mapping[str, Any]) -> int:
    """Return the index of a job's stored item.

    Raises:
        ItemError: Its sort key has none.
    """
    index = job_index(item["item"])
    if index is None:
        raise ItemError(item, "item", f"has no index after {JOB_PREFIX!r} in its key")
    return index


def attempts(item: JobItem | None) -> dict[int, RecordedAttempt]:
    """Return the attempts of a line by their number; empty if no child has opened the line."""
    return item.attempts() if item else {}


def removed_regions(items: Iterable[JobItem], regions: Collection[str]) -> list[str]:
    """Return the Regions in which lines are now, other than the given ones; such Regions have left the grid."""
    return sorted({item.region for item in items}.difference(regions))


def regions_of(items: Iterable[JobItem]) -> set[str]:
    """Return the Regions of all attempts of the lines, including Regions that have left the grid."""
    regions = set[str]()
    for item in items:
        regions.add(item.region)
        regions.update(previous.region for previous in item.tried)
    return regions - {""}  # the Region of a line that could not be read is unknown
