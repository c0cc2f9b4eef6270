"""Submissions by hand: parses a manifest that a user submitted to Batch without the intake.

Only a child of such a submission imports this module, because the parser and its checks are a large part of all modules
that a child would load.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.errors import UsageError
from traingrid.job.sizes import MAX_ARRAY
from traingrid.ledger.rejections import LONGEST_REASON, Rejection
from traingrid.ledger.timestamps import now
from traingrid.manifest import parse as manifest
from traingrid.manifest.checks.budgets import budget_of
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.models.initial_models import InitialModels
from traingrid.submission.files import submission_id

if TYPE_CHECKING:
    from traingrid.aws.s3 import Storage
    from traingrid.aws.s3_uri import ObjectVersion
    from traingrid.child.environment import Child
    from traingrid.errors import TraingridError
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.ledger.facts import SubmissionFacts
    from traingrid.ledger.ledger import Ledger
    from traingrid.manifest.line import Line


def find_job_by_hand(child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> tuple[str, Job]:
    """Return the submission and the job of a child of a manifest that was submitted to Batch by hand.

    The submission's id is derived from the Batch job's id: retries of the Batch job find the same training jobs, and
    another Batch job trains again. The intake has not claimed the submission, so its children claim it, and `traingrid
    status` shows it.

    Raises:
        ManifestError: The manifest is invalid.
        IndexError: The manifest has no line for the child.
        UsageError: The manifest has changed since the first child read it, the size of the array is not the number of
            lines, or the intake submits this manifest.
    """
    try:
        content, lines = _accepted_lines(child, deployment, storage, ledger)
    except (ManifestError, UsageError) as error:
        if child.index == 0:  # all children of the array have the same error
            ledger.record_rejection(_rejection(child, error))
        raise
    submission = submission_id(child.batch_job)
    job = jobs_of_lines(lines, deployment, submission)[child.index]
    facts: SubmissionFacts = {
        "manifest": str(child.array_file),
        "version": child.array_file.version,
        "jobs": len(lines),
        "children": child.size,
        "state": "Submitted",
        "batch_job": child.batch_job,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if (budget := budget_of(lines)) is not None:
        facts["budget_dollars"] = budget
    previous = ledger.claim_submission(submission, child.batch_job, facts)
    if previous and previous.sha256 != facts["sha256"]:
        message = f"{child.array_file} has changed since the first child of {child.batch_job} read it."
        raise UsageError(message, "Submit the job again, preferably with ?versionId=... in S3_ARRAY_FILE.")
    return submission, job


def _rejection(child: Child, error: TraingridError) -> Rejection:
    """Return the record of a Batch job of which no line is trained, which `traingrid status` shows."""
    errors = error.total if isinstance(error, ManifestError) else 1
    return Rejection(
        manifest=str(child.array_file),
        version=child.array_file.version,
        at=now(),
        errors=errors,
        reason=str(error)[:LONGEST_REASON],
        batch_job=child.batch_job,
    )


def _accepted_lines(child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> tuple[bytes, list[Line]]:
    """Return a manifest's content and its lines. Raises like `find_job_by_hand`."""
    _check_is_by_hand(child.array_file, deployment)
    content = storage.read(child.array_file, limit=manifest.MAX_BYTES)
    lines = InitialModels(deployment=deployment, ledger=ledger).resolved(manifest.parse(content, deployment))
    _check_size(child, len(lines))
    return content, lines


def _check_size(child: Child, lines: int) -> None:
    """Raise UsageError unless the Batch job of a raw manifest has exactly one child for each line.

    Every child of the array raises the same error, so nothing trains. Otherwise a line without a child would never be
    trained, and no process would report it.
    """
    if child.size == lines:
        return
    counted = "1 line" if lines == 1 else f"{lines} lines"
    size_text = "this Batch job is not an array" if child.size == 1 else f"this Batch job is an array of {child.size}"
    message = f"{child.array_file} has {counted}, but {size_text}. No job was started."
    if lines == 1:
        next_step = "Submit the job definition again as a single job, without an array size."
    elif lines > MAX_ARRAY:
        next_step = (
            f"An array has at most {MAX_ARRAY:,} children: split the file, or submit it with `traingrid submit`."
        )
    else:
        next_step = f"Submit the job definition again with an array size of {lines}."
    raise UsageError(message, next_step)


def _check_is_by_hand(manifest_file: ObjectVersion, deployment: Deployment) -> None:
    """Raise UsageError for a manifest under the intake's prefix, because the intake submitted it after its upload."""
    if manifest_file.bucket == deployment.manifest_bucket and manifest_file.key.startswith(names.MANIFEST_PREFIX):
        message = f"{manifest_file} was submitted when it was uploaded; this Batch job would train all of it again."
        folder = f"s3://{manifest_file.bucket}/{names.BY_HAND_PREFIX}"
        raise UsageError(message, f"To submit a manifest to Batch by hand, upload it below {folder} instead.")
