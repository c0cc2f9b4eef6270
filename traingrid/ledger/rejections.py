"""Rejections: the ledger's memory of manifests that have no submission, because of errors in them or in a Batch job."""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from traingrid.ledger.errors import errors_with_next_step
from traingrid.ledger.field_types import COUNT, MAP, TEXT, TIME, check_types
from traingrid.ledger.notices import notice_in
from traingrid.ledger.timestamps import timestamp
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traingrid.ledger.notices import Notice
    from traingrid.ledger.submission_item import SubmissionItem

REJECTIONS = "rejections"
"""The partition key of the items. It never collides with a submission id, which is hexadecimal."""
MAX_REASON_LENGTH = 2000
"""The number of characters of a reason that are stored."""
SHOWN_SECONDS = 7 * 24 * 3600
"""The age from which on a rejection is no longer read, so that a read does not depend on a grid's history."""
_REQUIRED = {"at": TIME, "errors": COUNT, **dict.fromkeys(("manifest", "version", "reason"), TEXT)}
NOTICE = "notice_rejected"
"""The field with the notice, as those of a submission (`traingrid.ledger.notices`)."""
_TYPES = _REQUIRED | {"batch_job": TEXT, NOTICE: MAP}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejection:
    """A version of a manifest that was not accepted.

    Attributes:
        manifest: The S3 URI, without the version.
        version: The id of the object's version in S3; a later version of the manifest has another item.
        at: The time of its upload, or the time at which the first child of its Batch job refused it.
        errors: The number of its errors; 0 if it could not be read, or if its Batch job was wrong.
        reason: The first error with its next step, as sentences.
        batch_job: The id of the Batch job of a manifest that was submitted by hand; empty for one of the intake.
        notice_rejected: Its notification; None if the reconciler has not begun to publish it.
    """

    manifest: str
    version: str
    at: str
    errors: int
    reason: str
    batch_job: str = ""
    notice_rejected: Notice | None = None

    @property
    def identity(self) -> str:
        """A short text that is the same for each rejection of this version, or of this Batch job."""
        return hashlib.sha256(f"{self.manifest}\0{self.version}\0{self.batch_job}".encode()).hexdigest()[:16]

    @property
    def key(self) -> tuple[str, str]:
        """The key of the item. It begins with the time, so that a query reads the newest ones only."""
        return REJECTIONS, f"{self.at}#{self.identity}"

    @property
    def sentence(self) -> str:
        """The manifest, the reason and the next step, for a person."""
        errors = f" with {counted(self.errors, 'error')}" if self.errors else ""
        all_errors = f" All errors are in {self.place_of_errors}." if self.errors > 1 else ""
        if self.batch_job:
            text = f"Batch job {self.batch_job} with {self.manifest} was refused at {self.at}{errors}."
        elif self.errors:
            text = f"{self.manifest} was rejected at {self.at}{errors}; nothing was submitted."
        else:
            text = f"{self.manifest} could not be read at {self.at}."
        return f"{text} {self.reason_sentences}{all_errors}"

    @property
    def reason_sentences(self) -> str:
        """The reason and the next step; one without errors of lines is a sentence, or begins with a URI."""
        return f"{self.reason[:1].upper()}{self.reason[1:]}" if self.errors else self.reason

    @property
    def place_of_errors(self) -> str:
        """The place that has all errors, for the end of a sentence."""
        return "the log of its first child" if self.batch_job else f"{self.manifest}.report.json"

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the rejection of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        with errors_with_next_step(
            "Delete the item; the report beside the manifest, or the child's log, has the errors."
        ):
            check_types(item, _TYPES, required=_REQUIRED)
            notice = notice_in(item, NOTICE)
        return cls(**{name: item[name] for name in _TYPES if name in item} | {NOTICE: notice})

    def stored(self) -> dict[str, Any]:
        """Return the item."""
        submission, item = self.key
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return {"submission": submission, "item": item, **fields}


def first_shown() -> str:
    """Return the lowest sort key of rejections that are shown."""
    return timestamp(time.time() - SHOWN_SECONDS)


def unresolved(rejections: Iterable[Rejection], submissions: Iterable[SubmissionItem]) -> list[Rejection]:
    """Return the last rejection of each manifest of which no later version was submitted, newest first.

    An earlier version may be claimed after the upload of a later one. Versions of traingrid that did not store the time
    of the upload have the time of the claim only.
    """
    submitted_at: dict[str, str] = {}
    for item in submissions:
        submitted_at[item.manifest] = max(item.uploaded_at or item.claimed_at, submitted_at.get(item.manifest, ""))
    ordered = sorted(rejections, key=lambda rejection: rejection.at)
    last_by_manifest = {rejection.manifest: rejection for rejection in ordered}
    open_rejections = (
        rejection for rejection in last_by_manifest.values() if rejection.at >= submitted_at.get(rejection.manifest, "")
    )
    return sorted(open_rejections, key=lambda rejection: rejection.at, reverse=True)
