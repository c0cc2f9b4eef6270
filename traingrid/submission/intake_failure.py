"""Intake failures: the report of a manifest whose jobs could not be submitted, and the record of a rejected one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.errors import TraingridError
from traingrid.ledger.rejections import MAX_REASON_LENGTH, Rejection
from traingrid.ledger.timestamps import now
from traingrid.manifest.errors import ManifestError

if TYPE_CHECKING:
    from traingrid.aws.s3_uri import S3Uri
    from traingrid.ledger.facts import Claim
    from traingrid.ledger.submission_item import SubmissionItem

RETRY_DELAYS = (60.0, 120.0)
"""Seconds between Lambda's attempts at an asynchronous event whose function fails
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html)."""
RETRYING, FAILED = "retrying", "failed"
"""The states of a report: Lambda will retry the event, or has made its last attempt."""

_AGAIN = (
    "The intake retries automatically within two minutes and replaces this report; do not upload the manifest again."
)
_BY_HAND = (
    "Do not upload the manifest again. After removing the cause, send its event from the intake's dead-letter queue to "
    'the intake (docs/reconciler.md, "Dead letters"), which submits the missing jobs.'
)
_READ_AGAIN = (
    "The intake tries three times within four minutes. Its event is then in the intake's dead-letter queue "
    '(docs/reconciler.md, "Dead letters").'
)


def rejection(manifest: S3Uri, version: str, error: Exception, *, at: str = "", batch_job: str = "") -> Rejection:
    """Return the record of a manifest with errors, or of one that could not be read.

    Args:
        at: The time of its upload, which is the same for all tries of its event; by default now.
        batch_job: The Batch job, if a user has submitted the manifest to Batch; no report has its errors.
    """
    errors = error.total if isinstance(error, ManifestError) else 0
    if isinstance(error, ManifestError):
        reason = str(error.errors[0])
    elif batch_job:
        reason = str(error)
    else:
        reason = f"{_reason(error)} {_READ_AGAIN}"
    return Rejection(
        manifest=str(manifest),
        version=version,
        at=at or now(),
        errors=errors,
        reason=reason[:MAX_REASON_LENGTH],
        batch_job=batch_job,
    )


def failed_tries(claim: Claim, previous: SubmissionItem | None) -> int:
    """Return the number of failed attempts of a request, including this one.

    Args:
        claim: The request's claim. All attempts at an asynchronous event have one request id, the start of the owner.
        previous: The submission's ledger item before this attempt; None at the first attempt.
    """
    same = previous is not None and previous.owner.partition("/")[0] == claim.owner.partition("/")[0]
    return 1 + (previous.failed_tries if previous and same else 0)


def failure_report(error: Exception, *, submission: str, jobs: int, submitted: int, tries: int) -> dict[str, Any]:
    """Return the report of a failed attempt.

    Args:
        jobs: The number of jobs of the submission.
        submitted: The number of jobs that Batch has certainly accepted.
        tries: The number of failed attempts of this request.
    """
    is_over = tries > len(RETRY_DELAYS)
    cause = error.next_step if isinstance(error, TraingridError) else ""
    return {
        "state": FAILED if is_over else RETRYING,
        "submission": submission,
        "jobs": jobs,
        "submitted_jobs": submitted,
        "reason": _reason(error),
        "next_step": f"{cause} {_BY_HAND if is_over else _AGAIN}".strip(),
        "tries": tries,
    }


def _reason(error: Exception) -> str:
    return error.what if isinstance(error, TraingridError) else f"AWS request failed: {error}."
