"""Absence: which Regions have no model in a round, and why."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traingrid.errors import TraingridError
from traingrid.job.failures import is_divergence
from traingrid.job.state import JobState
from traingrid.rounds.journal import LeftOut
from traingrid.submission.status import UNREADABLE
from traingrid.text import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.rounds.state import Round
    from traingrid.submission.status import JobStatus


def is_open(job: JobStatus) -> bool:
    """Return True for a job that may still end; one that cannot be read never does."""
    return not job.ended and job.phase != UNREADABLE


def reason(job: JobStatus) -> str:
    """Return why a job has no model that may be merged; empty if it has one."""
    if job.phase == UNREADABLE:
        return "cannot be read"
    if not job.ended:
        return "has not ended"
    if job.state != JobState.COMPLETED:
        return f"is {job.state}: {job.reason}" if job.reason else f"is {job.state}"
    if metric := _infinite_metric(job):
        return f"has the {metric} {job.metrics[metric]}"
    return "" if job.artifact else "has no model"


def left_out(job: JobStatus, wait: int) -> LeftOut:
    """Return the Region of a job without a model as the journal records it.

    Args:
        wait: The seconds for which the round has waited for the job.
    """
    is_infinite = job.state == JobState.COMPLETED and bool(_infinite_metric(job))
    text = f"has not ended within {duration(wait)}" if is_open(job) else reason(job)
    diverged = is_infinite or is_divergence(job.reason)
    return LeftOut(region=job.region, index=job.index, reason=text.partition("\n")[0], diverged=diverged)


def _infinite_metric(job: JobStatus) -> str:
    """Return the first metric of a job that is not finite; empty if all are."""
    return next((name for name, value in sorted(job.metrics.items()) if not math.isfinite(value)), "")


def missing_error(part: Round, absent: LeftOut) -> TraingridError:
    """Return the error of a round without the model of a Region."""
    job = f"job {absent.index} of {part.submission}"
    text = f"Round {part.number} has no model of {absent.region}: {job} {absent.reason}"
    retry = f"Retry it (traingrid retry {part.submission}) and run the same command again"
    step = f"{retry}, or continue without the Region: `missing: {{then: continue}}`."
    return TraingridError(f"{text.rstrip('.')}.", step)


def too_few_error(part: Round, without: Sequence[LeftOut], least: int) -> TraingridError:
    """Return the error of a round with too few models.

    Args:
        without: The Regions without a model.
        least: The number of models that a merge needs.
    """
    names = "; ".join(f"{region.region} {region.reason}".rstrip(".") for region in without)
    text = f"Round {part.number} has fewer than {least} models to merge: {names}."
    step = f"Correct the cause, retry the jobs (traingrid retry {part.submission}), and run the same command again."
    return TraingridError(text, step)


def merge_error(part: Round, job: JobStatus) -> TraingridError:
    """Return the error of a merge that has ended without a model."""
    text = f"The merge of round {part.number} is {job.state}: {job.reason or 'it has no model'}"
    step = f"Retry it: traingrid retry {part.merge_submission}. Then run the same command again."
    return TraingridError(f"{text.rstrip('.')}.", step)
