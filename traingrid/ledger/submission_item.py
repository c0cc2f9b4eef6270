"""Ledger items of submissions, as frozen values; `traingrid.ledger.items` describes how they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, get_args

from traingrid.ledger.field_types import (
    CHILDREN,
    COUNT,
    DOLLARS,
    JOBS,
    MAP,
    MAPS,
    PAST,
    TEXT,
    TIME,
    TIME_OR_EMPTY,
    check_types,
    map_of,
    optional,
)
from traingrid.ledger.notices import Notice, NoticeKind, notice_field, notices_of
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

_ARRAY_TYPES = {"batch_job": TEXT, "file": TEXT, "count": CHILDREN, "version": optional(TEXT)}
_TYPES = {
    **dict.fromkeys(("state", "manifest", "sha256", "owner", "batch_job"), TEXT),
    "claimed_at": TIME,
    "uploaded_at": TIME_OR_EMPTY,
    "submitted_at": TIME_OR_EMPTY,
    "updated_at": TIME_OR_EMPTY,
    "jobs": JOBS,
    "failed_tries": COUNT,
    "claim_ends_at": PAST,
    "version": optional(TEXT),
    "budget_dollars": optional(DOLLARS),
    "arrays": MAPS,
    "ended": map_of(JOBS),
    **dict.fromkeys(map(notice_field, get_args(NoticeKind)), MAP),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Array:
    """A Batch job of a submission: an array, or a plain job for a single line.

    Attributes:
        file: The file that its children read: a name in the submission's folder, a key or a URI.
        count: The number of its children.
        version: The S3 version of the file; None if it is part of `file` or was not recorded.
    """

    batch_job: str
    file: str
    count: int
    version: str | None = None

    @classmethod
    def from_entry(cls, item: Mapping[str, Any], entry: Mapping[str, Any]) -> Self:
        """Return an entry of `arrays` of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        check_types(item, _ARRAY_TYPES, entry, prefix="arrays[].", required=("batch_job", "file", "count"))
        job, file = entry["batch_job"], entry["file"]
        return cls(batch_job=job, file=file, count=entry["count"], version=entry.get("version"))

    def entry(self) -> dict[str, Any]:
        """Return the entry of `arrays` to store, which is also the entry of the intake's report."""
        version = {} if self.version is None else {"version": self.version}
        return {"batch_job": self.batch_job, "file": self.file, **version, "count": self.count}


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmissionItem:
    """A submission.

    Attributes:
        state: "Submitting", or "Submitted" once all its arrays are submitted.
        manifest: The S3 URI of the manifest.
        jobs: The number of jobs.
        claimed_at: The time of the last claim.
        version: The S3 version of the manifest; empty if it has none.
        sha256: The SHA-256 of the manifest, in hexadecimal.
        owner: The request that claimed it; the Batch job for a manifest that a user submitted to Batch.
        uploaded_at: The time of the manifest's upload; empty if it is not known.
        claim_ends_at: The time at which the claim expires, in seconds since 1970; 0 if the claim has no end.
        failed_tries: The number of failed attempts of the request that claimed it.
        submitted_at: The time at which its arrays were recorded.
        updated_at: The time at which the array of a retry was recorded last.
        batch_job: The id of the first Batch job; empty before it is submitted.
        arrays: All Batch jobs in the order in which they were submitted, retries included. Versions that submitted a
            single array did not store them.
        budget_dollars: The budget; None if it has none.
        ended: The number of jobs in each final state, once all have ended; empty while the submission has open work,
            and if a version without this field recorded its end.
        notices: The notifications that the reconciler publishes or has published.
        stored: The names of the stored fields, for a reader that must distinguish a default from a stored value.
    """

    submission: str
    state: str
    manifest: str
    jobs: int
    claimed_at: str
    version: str = ""
    sha256: str = ""
    owner: str = ""
    uploaded_at: str = ""
    claim_ends_at: int = 0
    failed_tries: int = 0
    submitted_at: str = ""
    updated_at: str = ""
    batch_job: str = ""
    arrays: tuple[Array, ...] = ()
    budget_dollars: float | None = None
    ended: Mapping[str, int] = field(default_factory=dict)
    notices: Mapping[NoticeKind, Notice] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the submission of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        get = item.get
        check_types(item, _TYPES, required=("submission", "state", "manifest", "jobs", "claimed_at"))
        return cls(
            submission=item["submission"],
            state=item["state"],
            manifest=item["manifest"],
            jobs=item["jobs"],
            claimed_at=item["claimed_at"],
            version=get("version") or "",
            sha256=get("sha256", ""),
            owner=get("owner", ""),
            uploaded_at=get("uploaded_at", ""),
            claim_ends_at=get("claim_ends_at", 0),
            failed_tries=get("failed_tries", 0),
            submitted_at=get("submitted_at", ""),
            updated_at=get("updated_at", ""),
            batch_job=get("batch_job", ""),
            arrays=_arrays(item),
            budget_dollars=get("budget_dollars"),
            ended=get("ended", {}),
            notices=notices_of(item),
            stored=frozenset(item),
        )

    @property
    def is_submitted(self) -> bool:
        """True if all its arrays are submitted."""
        return self.state == "Submitted"

    @property
    def changed_at(self) -> int:
        """The time of the last change other than the end of the claim, in seconds since 1970."""
        return epoch_seconds(max(self.updated_at, self.submitted_at, self.claimed_at))


def _arrays(item: Mapping[str, Any]) -> tuple[Array, ...]:
    if "arrays" in item:
        return tuple(Array.from_entry(item, entry) for entry in item["arrays"])
    if not item.get("batch_job"):
        return ()
    return (Array(batch_job=item["batch_job"], file="jobs.jsonl", count=item["jobs"]),)
