"""Intake: from a manifest in S3 to one array job, or to a report of all that is wrong with it."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import manifest, names
from traingrid.batch import SubmitFailedError
from traingrid.errors import TraingridError, UsageError
from traingrid.intake_failure import RETRY_DELAYS, failed_tries, failure_report
from traingrid.ledger import Claim, now
from traingrid.manifest_errors import ManifestError
from traingrid.manifest_rows import too_large
from traingrid.s3_uri import ObjectVersion, S3Uri
from traingrid.submission import chunks, index_uri, iter_jobs, jobs_key, normalised, submission_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from traingrid.batch import Batch
    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.job import Job
    from traingrid.ledger import Ledger
    from traingrid.storage import Storage

WITHIN_SECONDS = 60.0
"""For so long a request may be at it, where it does not say; as the intake function may (stacks/event_function.py)."""
_UNTIL_ITS_EVENT = 30.0  # from an upload until EventBridge has its event with Lambda, and the function's first start
ANSWERED_WITHIN = _UNTIL_ITS_EVENT + WITHIN_SECONDS * (1 + len(RETRY_DELAYS)) + sum(RETRY_DELAYS)
"""Seconds after its upload by which a manifest has its report, or is a dead letter."""
# Two submissions whose 8 digits collide are told apart by trying the next id; more than a few cannot happen.
_MAX_COLLISIONS = 4


class BusyError(TraingridError):
    """Another invocation is submitting this manifest right now; the caller's retry will find it done."""


@dataclass(frozen=True, kw_only=True)
class ManifestVersion:
    """One version of one object in the manifest bucket.

    Attributes:
        uri: Where it lies.
        version: S3's version id.
        size: Its bytes, as far as S3 has said.
    """

    uri: S3Uri
    version: str
    size: int = 0

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Self | None:
        """Read S3's "Object Created" event, whose keys are plain text, not URL-encoded.

        Returns:
            None for an object that is no manifest: a folder marker, or a report of our own.

        Raises:
            UsageError: The bucket keeps no versions, so the manifest could change under a running submission.
        """
        detail = event["detail"]
        key, bucket = detail["object"]["key"], detail["bucket"]["name"]
        if key.endswith(("/", names.REPORT_SUFFIX)):
            return None
        version = detail["object"].get("version-id")
        if not version:
            raise UsageError(f"The bucket {bucket} keeps no versions.", "Switch its versioning on and upload again.")
        return cls(uri=S3Uri(bucket, key), version=version, size=int(detail["object"].get("size", 0)))

    @property
    def report(self) -> S3Uri:
        """Where the report of this manifest lies: next to it."""
        return S3Uri(self.uri.bucket, self.uri.key + names.REPORT_SUFFIX)


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Accepts manifests.

    Attributes:
        deployment: The grid they are for.
        storage: Where they lie.
        ledger: Where submissions are claimed.
        batch: Where they are submitted.
    """

    deployment: Deployment
    storage: Storage
    ledger: Ledger
    batch: Batch

    def accept(self, source: ManifestVersion, owner: str, within: float = WITHIN_SECONDS) -> dict[str, Any]:
        """Submit a manifest, or reject it as a whole, and write the report next to it.

        Any number of calls for one version submit it once.

        Args:
            source: The manifest.
            owner: Who asks: nobody else gives the same, not even another try of the same request, because Lambda may
                run one request twice at once
                (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
            within: Seconds after which the caller has ended, whatever happens. Until then its claim holds.

        Returns:
            The report: state "submitted" with submission and Batch job, or "rejected" with every error.

        Raises:
            BusyError: Another request is submitting it right now.
            TraingridError: The manifest cannot be read, or Batch does not take the job; then the report has the state
                "retrying" or, when Lambda does not try the event again, "failed".
        """
        claim = Claim(owner=owner, ends_at=math.ceil(time.time() + within), seconds=within)
        try:
            lines, sha256 = self._read(source)
        except ManifestError as error:
            report = {"state": "rejected", "errors_in_total": error.total, "errors": error.as_dicts()}
        else:
            submission, arrays = self._submit(source, claim, lines, sha256)
            report = {"state": "submitted", "submission": submission, "jobs": len(lines)}
            report |= {"batch_job": arrays[0]["batch_job"], "arrays": arrays}
        return self._write_report(source, report)

    def _write_report(self, source: ManifestVersion, report: dict[str, Any]) -> dict[str, Any]:
        report = {"manifest": str(source.uri), "version": source.version, "at": now()} | report
        self.storage.write_json(source.report, report)
        return report

    def _read(self, source: ManifestVersion) -> tuple[list[manifest.Line], str]:
        """Return a manifest's lines and the SHA-256 of its bytes. One that is too large is not read at all."""
        if source.size > manifest.MAX_BYTES:
            raise too_large(source.size)
        size, pieces = self.storage.pieces(source.uri, source.version)
        if size > manifest.MAX_BYTES:
            raise too_large(size)
        digest = hashlib.sha256()
        return manifest.parse(_hashed(pieces, digest.update), self.deployment), digest.hexdigest()

    def _submit(
        self, source: ManifestVersion, claim: Claim, lines: list[manifest.Line], sha256: str
    ) -> tuple[str, list[Item]]:
        submission, claimed = self._claim(source, claim, len(lines), sha256)
        if claimed.get("batch_job"):
            return submission, _plain(claimed.get("arrays") or [{"batch_job": claimed["batch_job"]}])
        jobs = iter_jobs(lines, self.deployment, submission)
        arrays: list[Item] = []
        try:
            for chunk, count in enumerate(chunks(len(lines))):
                part = list(itertools.islice(jobs, count))
                arrays.append(self._submit_array(submission, chunk, part, retried=bool(claimed)))
            self.ledger.record_submitted(submission, arrays[0]["batch_job"], arrays)
        except (TraingridError, BotoCoreError, ClientError) as error:
            # The next try looks for our arrays by their names. What Batch may have taken only just now is perhaps not
            # listed yet; then the claim holds for as long again from now, which is a minute in AWS.
            taken = arrays or (isinstance(error, SubmitFailedError) and not error.refused)
            tries = failed_tries(claim, claimed)
            self._release(submission, claim, int(time.time() + claim.seconds) if taken else 0, tries)
            submitted = sum(int(array["count"]) for array in arrays)
            report = failure_report(error, submission=submission, jobs=len(lines), submitted=submitted, tries=tries)
            with suppress(BotoCoreError, ClientError):
                self._write_report(source, report)
            raise
        return submission, arrays

    def _submit_array(self, submission: str, chunk: int, jobs: list[Job], *, retried: bool) -> Item:
        """Write the jobs of one array and submit it, unless an earlier request has, whose array has its name."""
        target = S3Uri(self.deployment.manifest_bucket, jobs_key(submission, chunk))
        file = target.key.rpartition("/")[2]
        found = self.batch.find(submission, chunk) if retried else None
        if found:  # its children read what was written for them, by a grid that may have been another one
            return {"batch_job": found, "file": file, "count": len(jobs)}
        body, index = normalised(jobs)
        self.storage.write(index_uri(target), index, "application/octet-stream")
        version = self.storage.write(target, body, "application/jsonl")
        pinned = ObjectVersion(target.bucket, target.key, version)
        first = max(job.priority for job in jobs)
        batch_job = self.batch.submit(submission, pinned, len(jobs), chunk, share=jobs[0].share, priority=first)
        return {"batch_job": batch_job, "file": file, "version": version, "count": len(jobs)}

    def _claim(self, source: ManifestVersion, claim: Claim, jobs: int, sha256: str) -> tuple[str, Item]:
        """Return the submission of this manifest and what an earlier request left of it (nothing: we are first)."""
        identity = (str(source.uri), source.version)
        facts = {"manifest": identity[0], "version": identity[1], "jobs": jobs, "sha256": sha256}
        for collision in range(_MAX_COLLISIONS):
            submission = submission_id(*identity, *(str(collision),) * bool(collision))
            try:
                previous = self.ledger.claim_submission(
                    submission, claim.owner, facts | {"claim_ends_at": claim.ends_at}
                )
                if previous is None:
                    return submission, {}
                if (previous["manifest"], previous["version"]) != identity:
                    continue
                if previous["state"] != "Submitted":
                    self._become_owner(submission, claim, previous)
            except (BotoCoreError, ClientError):
                self._release(submission, claim)  # it may have been written
                raise
            return submission, previous
        raise TraingridError(f"No free submission id was found for {source.uri}.", "Upload the manifest again.")

    def _release(self, submission: str, claim: Claim, at: int = 0, tries: int = 0) -> None:
        """End our claim, or say when it ends; if that fails as well, it ends when it would have."""
        with suppress(BotoCoreError, ClientError):
            self.ledger.release_submission(submission, claim, at, failed_tries=tries)

    def _become_owner(self, submission: str, claim: Claim, previous: Item) -> None:
        """Claim anew what a request before this one has left, which must have ended; our own claim is ours."""
        over = previous["owner"] == claim.owner or time.time() >= previous["claim_ends_at"]
        if not (over and self.ledger.take_over_submission(submission, claim, previous)):
            raise BusyError(
                f"Submission {submission} is being submitted by another request ({previous['owner']}).",
                "This one is tried again in a minute.",
            )


def _plain(arrays: list[Item]) -> list[Item]:
    """Return what the ledger has recorded of arrays as JSON can say it."""
    return [array | {"count": int(array["count"])} if "count" in array else array for array in arrays]


def _hashed(pieces: Iterable[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    """Yield pieces of a file as they come, each counted into its hash."""
    for piece in pieces:
        update(piece)
        yield piece
