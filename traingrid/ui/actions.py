"""Actions: cancels and retries jobs at the request of a user of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from traingrid.submission.cancel import CancelTarget
from traingrid.text import counted

if TYPE_CHECKING:
    from traingrid.api.control_plane import ControlPlane


class CancelRequest(BaseModel):
    """The jobs to cancel: one job, or all jobs of the submission without an index."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    submission: str = Field(pattern=r"^[0-9a-f]{8}$")
    index: int | None = Field(default=None, ge=0)
    reason: str = Field(default="", max_length=200)


class RetryRequest(BaseModel):
    """The failed or stopped job to retry, or without an index the submission whose failed and stopped jobs are."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    submission: str = Field(pattern=r"^[0-9a-f]{8}$")
    index: int | None = Field(default=None, ge=0)


def cancel(plane: ControlPlane, request: CancelRequest, by: str) -> dict[str, Any]:
    """Cancel jobs, and return the sentences for the user.

    Args:
        by: The person who cancels, as the ledger records it.

    Raises:
        UsageError: The submission or the job does not exist.
    """
    target = CancelTarget(submission=request.submission, index=request.index, by=by, reason=request.reason)
    report = plane.canceller.cancel(target)
    children, trainings = (
        counted(len(report.batch_jobs), "Batch job"),
        counted(len(report.training_jobs), "training job"),
    )
    sentences = [f"The cancel is recorded. {children} and {trainings} were asked to stop."]
    if report.errors:
        sentences.append("The reconciler stops the rest within two passes (10 minutes).")
        sentences += [f"{place}: {why}" for place, why in report.errors.items()]
    return {"sentences": sentences}


def retry(plane: ControlPlane, request: RetryRequest, by: str) -> dict[str, Any]:
    """Retry jobs, and return the sentences for the user.

    Args:
        by: The person who retries, as the ledger records it.

    Raises:
        TraingridError: The submission does not exist, or is not submitted yet.
        UsageError: The job does not exist, or has not failed or stopped.
    """
    done = plane.retrier.retry(request.submission, by, index=request.index)
    sentences = [f"{counted(len(done.indices), 'job')} retried."]
    return {
        "sentences": sentences + [f"Job {index} is not retried: {why}." for index, why in sorted(done.left.items())]
    }
