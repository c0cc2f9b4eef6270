"""Verification: decides if an object is a copy of another one, and by which evidence."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from traingrid.aws.s3_copy import ObjectHead
    from traingrid.aws.s3_uri import S3Uri

Evidence = Literal["checksum", "etag", "size"]
"""The evidence that an object is a copy, the strongest first.

checksum: both objects have the same checksum of the whole object, which S3 computed for each of them.
etag: both have the same size and ETag, which is computed from the MD5 of the content or of its parts.
size: both have the same size, and the metadata of the copy records the source's ETag. The source has no checksum of the
whole object, and keys of KMS make ETags incomparable. S3 itself checks the data that it copies.
"""
SENTENCES: dict[Evidence, str] = {
    "checksum": "by the checksum of the whole object",
    "etag": "by size and ETag",
    "size": "by size, because their source has no checksum and its ETag cannot be compared",
}
MARK = "traingrid-copied-from"
"""The key of the metadata with which a copy records its source, if nothing else identifies it."""


def evidence(source: ObjectHead, target: ObjectHead, mark: str) -> Evidence | None:
    """Return the evidence that one object is a copy of another, or None if it is not.

    Args:
        target: The object that may be its copy.
        mark: The source's mark (`mark_of`).
    """
    if source.size != target.size:
        return None
    common = source.checksums.keys() & target.checksums.keys()
    if common:
        same = all(source.checksums[name] == target.checksums[name] for name in common)
        return "checksum" if same else None
    if source.etag_is_md5 and target.etag_is_md5:
        if source.etag == target.etag:
            return "etag"
        if source.parts == target.parts == 0:
            return None
    return "size" if target.metadata.get(MARK) == mark else None


def mark_of(source: S3Uri, object_head: ObjectHead) -> str:
    """Return a short text that identifies the present content of an object."""
    return hashlib.sha256(f"{source} {object_head.etag} {object_head.size}".encode()).hexdigest()[:32]
