"""Submitting once: manifests whose key identifies their content, so that a repeated command submits nothing twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.api.submit import wait_for_report
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.submission.files import submission_id

if TYPE_CHECKING:
    from traingrid.api.control_plane import ControlPlane
    from traingrid.aws.s3 import Storage


@dataclass(frozen=True, kw_only=True)
class SubmittedOnce:
    """A manifest after its upload.

    Attributes:
        submission: The submission's id.
        report: The intake's report; None for a submission that the ledger had before.
    """

    submission: str
    report: dict[str, Any] | None = None


def submit_once(plane: ControlPlane, key: str, manifest: bytes) -> SubmittedOnce:
    """Upload a manifest unless its key exists, and wait for the intake's report unless the ledger has its submission.

    Args:
        plane: The control plane.
        key: The key of the manifest, without the prefix of manifests.
        manifest: Its content.

    Raises:
        TraingridError: The intake does not answer.
    """
    uri = S3Uri(plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{key}")
    version = uploaded_once(plane.storage, uri, manifest)
    submission = submission_id(str(uri), version)
    known = plane.ledger.submission(submission)
    if known is not None and known.is_submitted and (known.manifest, known.version) == (str(uri), version):
        return SubmittedOnce(submission=submission)
    report = wait_for_report(plane.storage, uri, version)
    # The intake gives it another id if two ids collide.
    return SubmittedOnce(submission=report.get("submission", submission), report=report)


def uploaded_once(storage: Storage, uri: S3Uri, content: bytes) -> str:
    """Upload an object unless its key has or had one, and return the id of the only version.

    A submission belongs to a version of a manifest, so a second version would train its lines again. S3 refuses to
    create an existing key; a key whose object was deleted is found by its old version.

    Raises:
        TraingridError: The object was deleted for good while this function ran.
    """
    version = storage.first_version(uri)
    if version is None:
        storage.write_if_none(
            uri, content, "application/jsonl"
        )  # if it returns False, an earlier request has written it
        version = storage.first_version(uri)
    if version is None:
        raise TraingridError(f"{uri} was deleted with all its versions.", "Run the command again.")
    return version
