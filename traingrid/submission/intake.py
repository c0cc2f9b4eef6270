"""Intake: submits a manifest in S3 as Batch array jobs, or rejects it with a report of all its errors."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.batch import SubmitFailedError
from traingrid.aws.s3 import object_of_event
from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.errors import TraingridError, UsageError
from traingrid.ledger.facts import Claim
from traingrid.ledger.field_types import is_time
from traingrid.ledger.submission_item import Array
from traingrid.ledger.timestamps import now
from traingrid.manifest import parse as manifest
from traingrid.manifest.checks.budgets import budget_of
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import iter_jobs
from traingrid.manifest.rows import too_large
from traingrid.models.initial_models import InitialModels
from traingrid.strict_json import JsonError, json_object
from traingrid.submission.batch_children import is_retry
from traingrid.submission.files import chunks, index_uri, jobs_key, normalised, report_uri, submission_id
from traingrid.submission.intake_failure import RETRY_DELAYS, failed_tries, failure_report, rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from traingrid.aws.batch import Batch
    from traingrid.aws.s3 import Storage
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.ledger.facts import SubmissionFacts
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem

WITHIN_SECONDS = 60.0
"""The default time limit of a request, which is the intake function's timeout (stacks/event_function.py)."""
_UNTIL_ITS_EVENT = 30.0  # from an upload until Lambda has its event from EventBridge, including a cold start
ANSWERED_WITHIN = _UNTIL_ITS_EVENT + WITHIN_SECONDS * (1 + len(RETRY_DELAYS)) + sum(RETRY_DELAYS)
"""Seconds after its upload within which a manifest has its report, or its event is in the dead-letter queue."""
# If the 8 digits of two submission ids collide, the next id is tried; more than a few collisions cannot happen.
_MAX_COLLISIONS = 4
_BYTES = "application/octet-stream"


class BusyError(TraingridError):
    """Another invocation is submitting this manifest now; the caller's retry will find it submitted."""


@dataclass(frozen=True, kw_only=True)
class ManifestVersion:
    """One version of a manifest in the manifest bucket.

    Attributes:
        version: S3's version id.
        size: The size in bytes; 0 if it is unknown.
        uploaded_at: The time of the upload; empty if it is unknown.
    """

    uri: S3Uri
    version: str
    size: int = 0
    uploaded_at: str = ""

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Self | None:
        """Read S3's "Object Created" event; `accept` finds the object whose key is URL-encoded in it.

        Returns:
            None for an object that is not a manifest: a folder marker or a report.

        Raises:
            UsageError: The bucket is not versioned, so the manifest could change while it is being submitted.
        """
        detail = event["detail"]
        key, bucket = detail["object"]["key"], detail["bucket"]["name"]
        if key.endswith(("/", names.REPORT_SUFFIX)):
            return None
        version = detail["object"].get("version-id")
        if not version:
            raise UsageError(f"The bucket {bucket} is not versioned.", "Enable its versioning and upload again.")
        size = int(detail["object"].get("size", 0))
        sent_at = event.get("time", "")
        uploaded_at = sent_at if is_time(sent_at) else ""  # an event that was not sent by S3 may have another text
        return cls(uri=S3Uri(bucket, key), version=version, size=size, uploaded_at=uploaded_at)

    @property
    def report(self) -> S3Uri:
        """The S3 URI of the last report on any version of the manifest, which is next to the manifest."""
        return S3Uri(self.uri.bucket, self.uri.key + names.REPORT_SUFFIX)

    @property
    def own_report(self) -> S3Uri:
        """The S3 URI of the report on this version."""
        return report_uri(self.uri, self.version)


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Accepts manifests.

    Attributes:
        ledger: The ledger in which submissions are claimed.
        batch: The Batch queue to which jobs are submitted.
    """

    deployment: Deployment
    storage: Storage
    ledger: Ledger
    batch: Batch

    def accept(self, source: ManifestVersion, owner: str, within: float = WITHIN_SECONDS) -> dict[str, Any]:
        """Submit a manifest, or reject it as a whole, and write the report next to it.

        Any number of calls for one version submit it once. Once it is submitted, its report does not change any more,
        even if the grid of today would reject it.

        Args:
            owner: The unique name of the caller. Another attempt of the same request needs another name, because Lambda
                may run one request twice at the same time
                (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
            within: Seconds after which the caller has certainly ended. Its claim is valid until then.

        Returns:
            The report: state "submitted" with submission and Batch job, or "rejected" with every error.

        Raises:
            BusyError: Another request is submitting the manifest now.
            TraingridError: The manifest cannot be read, or Batch does not accept the job. The report then has the state
                "retrying", or "failed" if Lambda does not retry the event.
        """
        source = replace(source, uri=object_of_event(self.storage, source.uri, source.version))
        if (previous := self._previous_submission(source)) and previous.is_submitted:
            return self._reported_again(source, previous)
        claim = Claim(owner=owner, ends_at=math.ceil(time.time() + within), seconds=within)
        try:
            lines, sha256 = self._read(source)
        except ManifestError as error:
            errors = {"state": "rejected", "errors_in_total": error.total, "errors": error.as_dicts()}
            report = self._write_report(source, errors)
            self.ledger.record_rejection(rejection(source.uri, source.version, error, at=source.uploaded_at))
            return report
        except (TraingridError, BotoCoreError, ClientError) as error:
            with suppress(BotoCoreError, ClientError):
                self.ledger.record_rejection(rejection(source.uri, source.version, error, at=source.uploaded_at))
            raise
        submission, arrays = self._submit(source, claim, lines, sha256)
        return self._write_report(source, _submitted(submission, len(lines), arrays))

    def _write_report(self, source: ManifestVersion, report: dict[str, Any]) -> dict[str, Any]:
        report = {"manifest": str(source.uri), "version": source.version, "at": now()} | report
        # That of the version is last: `_submitted_report` takes it as a sign that both were written.
        for uri in dict.fromkeys((source.report, source.own_report)):
            self.storage.write_json(uri, report)
        return report

    def _previous_submission(self, source: ManifestVersion) -> SubmissionItem | None:
        """Return the submission of a manifest that an earlier request has claimed."""
        for submission in _ids(source):
            item = self.ledger.submission(submission)
            if item is None or (item.manifest, item.version) == (str(source.uri), source.version):
                return item
        return None

    def _reported_again(self, source: ManifestVersion, item: SubmissionItem) -> dict[str, Any]:
        """Return the report of a submission; write it if the request that submitted the last array did not."""
        report = self._submitted_report(source)
        return report or self._write_report(source, _submitted(item.submission, item.jobs, _reported_arrays(item)))

    def _submitted_report(self, source: ManifestVersion) -> dict[str, Any] | None:
        """Return the report on this version of a manifest, if it was submitted and has one."""
        with suppress(ClientError, JsonError):  # S3 refuses to read a missing object of a bucket that is not listed
            report = json_object(self.storage.read_if_exists(source.own_report) or b"{}")
            if (report.get("version"), report.get("state")) == (source.version, "submitted"):
                return report
        return None

    def _read(self, source: ManifestVersion) -> tuple[list[manifest.Line], str]:
        """Return a manifest's lines and the SHA-256 of its bytes. A manifest that is too large is not read."""
        if source.size > manifest.MAX_BYTES:
            raise too_large(source.size)
        size, pieces = self.storage.pieces(source.uri, source.version)
        if size > manifest.MAX_BYTES:
            raise too_large(size)
        digest = hashlib.sha256()
        lines = manifest.parse(_hash_pieces(pieces, digest.update), self.deployment)
        return InitialModels(deployment=self.deployment, ledger=self.ledger).resolved(lines), digest.hexdigest()

    def _submit(
        self, source: ManifestVersion, claim: Claim, lines: list[manifest.Line], sha256: str
    ) -> tuple[str, list[dict[str, Any]]]:
        submission, claimed = self._claim(source, claim, lines, sha256)
        if claimed and claimed.batch_job:
            return submission, _reported_arrays(claimed)
        jobs = iter_jobs(lines, self.deployment, submission)
        arrays: list[Array] = []
        try:
            for chunk, count in enumerate(chunks(len(lines))):
                arrays.append(self._submit_array(submission, chunk, itertools.islice(jobs, count), count))
            self.ledger.record_submitted(submission, arrays[0].batch_job, arrays)
        except (TraingridError, BotoCoreError, ClientError) as error:
            # The next attempt finds our arrays by their names. Batch may not list a new array yet, so the claim is
            # extended by its duration from now, which is a minute in AWS.
            is_accepted = arrays or (isinstance(error, SubmitFailedError) and not error.refused)
            tries = failed_tries(claim, claimed)
            self._release(submission, claim, int(time.time() + claim.seconds) if is_accepted else 0, tries)
            submitted = sum(array.count for array in arrays)
            report = failure_report(error, submission=submission, jobs=len(lines), submitted=submitted, tries=tries)
            with suppress(BotoCoreError, ClientError):
                self._write_report(source, report)
            raise
        return submission, [array.entry() for array in arrays]

    def _submit_array(self, submission: str, chunk: int, jobs: Iterator[Job], count: int) -> Array:
        """Write the jobs of one array and submit it, unless an earlier request has submitted an array of its name.

        The index of the jobs is written before the array is submitted, so its absence shows that Batch has no array,
        also if a person has deleted the item of the submission.

        Memory holds one job at a time; the first one has the highest priority.
        """
        target = S3Uri(self.deployment.manifest_bucket, jobs_key(submission, chunk))
        file = target.key.rpartition("/")[2]
        first_job = next(jobs)
        body, index = normalised(itertools.chain([first_job], jobs))
        if not self.storage.write_if_none(index_uri(target), index, _BYTES):
            if existing := self.batch.find(submission, chunk):
                # Its children read the jobs that were written with it, perhaps by another deployment of the grid.
                return Array(batch_job=existing, file=file, count=count)
            self.storage.write(index_uri(target), index, _BYTES)
        pinned = ObjectVersion(target.bucket, target.key, self.storage.write(target, body, "application/jsonl"))
        batch_job = self.batch.submit(
            submission, pinned, count, chunk, share=first_job.share, priority=first_job.priority
        )
        return Array(batch_job=batch_job, file=file, version=pinned.version, count=count)

    def _claim(
        self, source: ManifestVersion, claim: Claim, lines: list[manifest.Line], sha256: str
    ) -> tuple[str, SubmissionItem | None]:
        """Return the manifest's submission id, and its ledger item if an earlier request claimed it."""
        identity = (str(source.uri), source.version)
        facts: SubmissionFacts = {"manifest": identity[0], "version": identity[1], "jobs": len(lines), "sha256": sha256}
        facts |= {"claim_ends_at": claim.ends_at, "uploaded_at": source.uploaded_at}
        if (budget := budget_of(lines)) is not None:
            facts["budget_dollars"] = budget
        for submission in _ids(source):
            try:
                previous = self.ledger.claim_submission(submission, claim.owner, facts)
                if previous is None:
                    return submission, None
                if (previous.manifest, previous.version) != identity:
                    continue
                if not previous.is_submitted:
                    self._become_owner(claim, previous)
            except (BotoCoreError, ClientError):
                self._release(submission, claim)  # the claim may have been written
                raise
            return submission, previous
        raise TraingridError(f"No free submission id was found for {source.uri}.", "Upload the manifest again.")

    def _release(self, submission: str, claim: Claim, at: int = 0, tries: int = 0) -> None:
        """End our claim now or at a given time; if the write fails, the claim ends at its original time."""
        with suppress(BotoCoreError, ClientError):
            self.ledger.release_submission(submission, claim, at, failed_tries=tries)

    def _become_owner(self, claim: Claim, previous: SubmissionItem) -> None:
        """Take over the claim of an earlier request, which must be ours or have ended; otherwise raise BusyError."""
        may_take_over = previous.owner == claim.owner or time.time() >= previous.claim_ends_at
        if not (may_take_over and self.ledger.take_over_submission(previous, claim)):
            raise BusyError(
                f"Submission {previous.submission} is being submitted by another request ({previous.owner}).",
                "This request is retried in a minute.",
            )


def _ids(source: ManifestVersion) -> Iterator[str]:
    """Yield the ids that the submission of a manifest may have, in the order in which they are tried."""
    yield submission_id(str(source.uri), source.version)
    for collision in range(1, _MAX_COLLISIONS):
        yield submission_id(str(source.uri), source.version, str(collision))


def _submitted(submission: str, jobs: int, arrays: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the report of a submission."""
    report = {"state": "submitted", "submission": submission, "jobs": jobs}
    return report | {"batch_job": arrays[0]["batch_job"], "arrays": arrays}


def _reported_arrays(claimed: SubmissionItem) -> list[dict[str, Any]]:
    """Return the arrays of a report for a submission that an earlier request has submitted."""
    unknown = [{"batch_job": claimed.batch_job}]
    submitted = [array.entry() for array in claimed.arrays if not is_retry(array)]
    return submitted if "arrays" in claimed.stored else unknown


def _hash_pieces(pieces: Iterable[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    """Yield the pieces of a file, and update its hash with each piece."""
    for piece in pieces:
        update(piece)
        yield piece
