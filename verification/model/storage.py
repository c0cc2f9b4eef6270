"""In-memory S3: objects with versions."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from verification.model.refusals import refusal

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class NoSuchKeyError(ClientError):
    """S3's error for an object that does not exist."""


@dataclass
class Bucket:
    """All objects of all buckets, with the interface of the S3 client; version ids are numbers from 1.

    Attributes:
        objects: The versions of each object, by bucket and key.
    """

    objects: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)
    exceptions = SimpleNamespace(NoSuchKey=NoSuchKeyError)

    def put_object(self, **request: Any) -> dict[str, Any]:
        """Write a new version."""
        versions = self.objects.setdefault((request["Bucket"], request["Key"]), [])
        versions.append(bytes(request["Body"]))
        return {"VersionId": str(len(versions))}

    def get_object(self, **request: Any) -> dict[str, Any]:
        """Read a version, or a range of it."""
        versions = self.objects.get((request["Bucket"], request["Key"]))
        if not versions:
            raise NoSuchKeyError({"Error": {"Code": "NoSuchKey", "Message": request["Key"]}}, "GetObject")
        content = versions[int(request.get("VersionId", len(versions))) - 1]
        match = _RANGE.fullmatch(request.get("Range", ""))
        if match:
            start, end = int(match[1]), int(match[2]) + 1
            if start >= len(content):
                raise refusal("InvalidRange", "The requested range is not satisfiable", 416)
            content = content[start:end]
        return {"ContentLength": len(content), "Body": StreamingBody(io.BytesIO(content), len(content))}
