"""Submitting once: manifests whose key identifies their content, so that a repeated command submits nothing twice.

A manifest that the intake has rejected has no jobs. It is uploaded again by the next command, when the cause may have
been removed, to the next of its keys (`try_key`): two commands at once use the same one, and so submit it once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.api.submit import known_report, wait_for_report
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
        report: The intake's report; None for a submission that the ledger had before.
    """

    submission: str
    report: dict[str, Any] | None = None


def submit_once(plane: ControlPlane, key: str, manifest: bytes) -> SubmittedOnce:
    """Upload a manifest unless an earlier call did, and wait for the intake's report unless it is submitted.

    Args:
        key: The first key of the manifest, without the prefix of manifests.

    Returns:
        The submission, or the report of a manifest that was rejected during this call; one that was rejected before is
        uploaded again.

    Raises:
        TraingridError: The intake does not answer.
    """
    bucket = plane.deployment.manifest_bucket
    tries = (S3Uri(bucket, f"{names.MANIFEST_PREFIX}{try_key(key, number)}") for number in itertools.count(1))
    uri = next(uri for uri in tries if not _was_rejected(plane, uri))
    version = uploaded_once(plane.storage, uri, manifest)
    submission = submission_id(str(uri), version)
    if _is_submitted(plane, uri, version):
        return SubmittedOnce(submission=submission)
    report = wait_for_report(plane.storage, uri, version)
    # The intake gives it another id if two ids collide.
    return SubmittedOnce(submission=report.get("submission", submission), report=report)


def try_key(key: str, number: int) -> str:
    """Return the key of a manifest's try, from 1; each but the first follows a rejected one."""
    stem, dot, suffix = key.rpartition(".")
    return key if number == 1 else f"{stem}-try{number}{dot}{suffix}"


def _was_rejected(plane: ControlPlane, uri: S3Uri) -> bool:
    """Return True if the intake has rejected the manifest with a key."""
    version = plane.storage.first_version(uri)
    if version is None or _is_submitted(plane, uri, version):
        return False
    report = known_report(plane.storage, uri, version)
    return report is not None and report["state"] == "rejected"


def _is_submitted(plane: ControlPlane, uri: S3Uri, version: str) -> bool:
    """Return True if the ledger has the submission of a manifest's version."""
    item = plane.ledger.submission(submission_id(str(uri), version))
    return item is not None and item.is_submitted and (item.manifest, item.version) == (str(uri), version)


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
