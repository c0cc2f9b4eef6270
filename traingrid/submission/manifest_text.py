"""Manifest text: the lines of a submission's manifest as its user wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.manifest.rows import Row, Rows

if TYPE_CHECKING:
    from traingrid.aws.s3 import Storage
    from traingrid.ledger.submission_item import SubmissionItem


def manifest_content(storage: Storage, submission_item: SubmissionItem) -> bytes | None:
    """Return the content of a submission's manifest; None if it was deleted, or has a URI of an older version."""
    try:
        return storage.read(S3Uri.parse(submission_item.manifest), submission_item.version or None)
    except (UsageError, ValueError):
        return None


def lines_of(content: bytes) -> list[str]:
    """Return the lines of a manifest."""
    return content.decode("utf-8-sig", "replace").splitlines()


def header_of(content: bytes) -> str:
    """Return the header of a CSV manifest; empty if it has none."""
    rows = Rows(chunks=[content])
    return rows.header if isinstance(next(iter(rows), None), Row) else ""
