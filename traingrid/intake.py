"""Intake: from a manifest in S3 to one array job, or to a report of all that is wrong with it."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from traingrid import manifest, names
from traingrid.errors import TraingridError, UsageError
from traingrid.ledger import epoch_seconds, now
from traingrid.manifest_errors import ManifestError
from traingrid.s3_uri import S3Uri
from traingrid.submission import index_uri, jobs_key, jobs_of_lines, normalised, submission_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.batch import Batch
    from traingrid.deployment import Deployment
    from traingrid.ledger import Item, Ledger
    from traingrid.storage import Storage

# The intake function is ended after 60 s (stacks/manifest_intake.py), so a claim older than this has no living owner.
_CLAIM_OUTLIVES_SECONDS = 90
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
    """

    uri: S3Uri
    version: str

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
        return cls(uri=S3Uri(bucket, key), version=version)

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

    def accept(self, source: ManifestVersion, owner: str) -> dict[str, Any]:
        """Submit a manifest, or reject it as a whole, and write the report next to it.

        Any number of calls for one version submit it once.

        Args:
            source: The manifest.
            owner: Who asks: the same for all tries of one request, different for different requests.

        Returns:
            The report: state "submitted" with submission and Batch job, or "rejected" with every error.

        Raises:
            BusyError: Another request is submitting it right now.
            TraingridError: The manifest cannot be read, or Batch does not take the job.
        """
        content = self.storage.read(source.uri, source.version, limit=manifest.MAX_BYTES)
        try:
            lines = manifest.parse(content, self.deployment)
        except ManifestError as error:
            report = {"state": "rejected", "errors_in_total": error.total, "errors": error.as_dicts()}
        else:
            submission, batch_job = self._submit(source, owner, lines, hashlib.sha256(content).hexdigest())
            report = {"state": "submitted", "submission": submission, "jobs": len(lines), "batch_job": batch_job}
        report = {"manifest": str(source.uri), "version": source.version, "at": now()} | report
        self.storage.write_json(source.report, report)
        return report

    def _submit(self, source: ManifestVersion, owner: str, lines: list[manifest.Line], sha256: str) -> tuple[str, str]:
        submission, claimed = self._claim(source, owner, len(lines), sha256)
        if claimed.get("batch_job"):
            return submission, claimed["batch_job"]
        jobs = S3Uri(self.deployment.manifest_bucket, jobs_key(submission))
        body, index = normalised(jobs_of_lines(lines, self.deployment, submission))
        self.storage.write(jobs, body, "application/jsonl")
        self.storage.write(index_uri(jobs), index, "application/octet-stream")
        batch_job = (self.batch.find(submission) if claimed else None) or self.batch.submit(
            submission, jobs, len(lines)
        )
        self.ledger.record_submitted(submission, batch_job)
        return submission, batch_job

    def _claim(self, source: ManifestVersion, owner: str, jobs: int, sha256: str) -> tuple[str, Item]:
        """Return the submission of this manifest and what an earlier request left of it (nothing: we are first)."""
        identity = (str(source.uri), source.version)
        facts = {"manifest": identity[0], "version": identity[1], "jobs": jobs, "sha256": sha256}
        for collision in range(_MAX_COLLISIONS):
            submission = submission_id(*identity, *(str(collision),) * bool(collision))
            former = self.ledger.claim_submission(submission, owner, facts)
            if former is None:
                return submission, {}
            if (former["manifest"], former["version"]) != identity:
                continue
            if former["state"] != "Submitted":
                self._become_owner(submission, owner, former)
            return submission, former
        raise TraingridError(f"No free submission id was found for {source.uri}.", "Upload the manifest again.")

    def _become_owner(self, submission: str, owner: str, former: Item) -> None:
        """Claim anew what a try before this one has left: our own one has ended, another's after some time."""
        dead = former["owner"] == owner or time.time() - epoch_seconds(former["claimed_at"]) > _CLAIM_OUTLIVES_SECONDS
        if not (dead and self.ledger.take_over_submission(submission, owner, former)):
            raise BusyError(
                f"Submission {submission} is being submitted by another request ({former['owner']}).",
                "This one is tried again in a minute.",
            )
