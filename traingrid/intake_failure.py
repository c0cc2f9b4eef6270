"""Intake failures: the report beside a manifest whose jobs could not be submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.ledger import Claim

RETRY_DELAYS = (60.0, 120.0)
"""Seconds between the tries that Lambda makes of an asynchronous event whose function fails
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html)."""
RETRYING, FAILED = "retrying", "failed"
"""States of a report: Lambda tries the event again, or has tried it for the last time."""

_AGAIN = (
    "The intake tries again by itself within two minutes and replaces this report; do not upload the manifest again."
)
_BY_HAND = (
    "Do not upload the manifest again: when the cause is removed, send its event in the intake's dead-letter queue to "
    'the intake (docs/operations.md, "Dead letters"), which submits the jobs that are missing.'
)


def failed_tries(claim: Claim, previous: Mapping[str, Any]) -> int:
    """Return how often a request has failed, this time included.

    Args:
        claim: Its claim; all tries of an asynchronous event have one request id, with which the owner begins.
        previous: The submission as it was before this try; empty if this is the first.
    """
    same = str(previous.get("owner", "")).partition("/")[0] == claim.owner.partition("/")[0]
    return 1 + (int(previous.get("failed_tries", 0)) if same else 0)


def failure_report(error: Exception, *, submission: str, jobs: int, submitted: int, tries: int) -> dict[str, Any]:
    """Return the report of a try that failed.

    Args:
        error: Its error.
        submission: The submission's id.
        jobs: How many jobs it has.
        submitted: How many of them Batch has taken for certain.
        tries: How often this request has failed.
    """
    over = tries > len(RETRY_DELAYS)
    cause = error.next_step if isinstance(error, TraingridError) else ""
    return {
        "state": FAILED if over else RETRYING,
        "submission": submission,
        "jobs": jobs,
        "submitted_jobs": submitted,
        "reason": error.what if isinstance(error, TraingridError) else f"AWS answers: {error}.",
        "next_step": f"{cause} {_BY_HAND if over else _AGAIN}".strip(),
        "tries": tries,
    }
