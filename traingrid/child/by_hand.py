"""Submissions by hand: accepts a manifest that a user submitted to Batch without the intake.

The first child stores its lines as the intake does, so that all later readers find a normal submission. Only such a
child imports this module, because the parser and its checks are a large part of all modules that a child would load.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.errors import UsageError
from traingrid.job.sizes import MAX_ARRAY
from traingrid.ledger.submission_item import Array
from traingrid.ledger.timestamps import now
from traingrid.manifest import parse as manifest
from traingrid.manifest.checks.budgets import budget_of
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import iter_jobs
from traingrid.models.initial_models import InitialModels
from traingrid.submission.files import index_uri, jobs_key, line_index, normalised, submission_id
from traingrid.submission.intake_failure import rejection

if TYPE_CHECKING:
    from traingrid.aws.s3 import Storage
    from traingrid.child.environment import Child
    from traingrid.grid.deployment import Deployment
    from traingrid.ledger.facts import SubmissionFacts
    from traingrid.ledger.ledger import Ledger
    from traingrid.manifest.line import Line


def stored_jobs(child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> ObjectVersion:
    """Return the file of the jobs of a manifest that was submitted to Batch by hand; the first child writes it.

    The submission's id is derived from the Batch job's id: retries of the Batch job find the same training jobs, and
    another Batch job trains again.

    Raises:
        ManifestError: The manifest is invalid.
        UsageError: The size of the array is not the number of lines, the intake submits this manifest, or another
            submission has the id.
    """
    submission = submission_id(child.batch_job)
    if ledger.submission(submission) is None:
        _submit(submission, child, deployment, storage, ledger)
    item = ledger.submission(submission)
    if item is None or item.batch_job != child.batch_job:
        message = f"Another submission has the id of this one, {submission}. No job was started."
        raise UsageError(message, "Submit the job definition again: another Batch job has another id.")
    return ObjectVersion(deployment.manifest_bucket, jobs_key(submission), item.arrays[0].version or "")


def _submit(submission: str, child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> None:
    """Store and claim the submission of a child's manifest; another child may do the same at this time."""
    try:
        content, lines = _accepted_lines(child, deployment, storage, ledger)
    except (ManifestError, UsageError) as error:
        if child.index == 0:  # all children of the array have the same error
            manifest_file = child.array_file
            ledger.record_rejection(rejection(manifest_file, manifest_file.version, error, batch_job=child.batch_job))
        raise
    jobs, _ = normalised(iter_jobs(lines, deployment, submission))
    file = S3Uri(deployment.manifest_bucket, jobs_key(submission))
    version = _store(storage, file, jobs)
    array = Array(batch_job=child.batch_job, file=file.key.rpartition("/")[2], version=version, count=child.size)
    facts: SubmissionFacts = {
        "manifest": str(child.array_file),
        "version": child.array_file.version,
        "jobs": len(lines),
        "sha256": hashlib.sha256(content).hexdigest(),
        "state": "Submitted",
        "submitted_at": now(),
        "batch_job": child.batch_job,
        "arrays": [array.entry()],
    }
    if (budget := budget_of(lines)) is not None:
        facts["budget_dollars"] = budget
    ledger.claim_submission(submission, child.batch_job, facts)


def _store(storage: Storage, file: S3Uri, jobs: bytes) -> str:
    """Write a submission's jobs and their index unless another child has, and return the version of the jobs.

    The file that was written first counts, also if the manifest or the grid has changed since. The child's role cannot
    replace it (stacks/child_permissions.py).
    """
    storage.write_if_none(file, jobs, "application/jsonl")
    index = line_index(storage.read(file).splitlines(keepends=True))
    storage.write_if_none(index_uri(file), index, "application/octet-stream")
    return storage.current_version(file) or ""


def _accepted_lines(child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> tuple[bytes, list[Line]]:
    """Return a manifest's content and its lines. Raises like `stored_jobs`."""
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
