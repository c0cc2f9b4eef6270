"""In-memory S3: objects with versions."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
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
        """Write a new version, or with IfNoneMatch the first one only."""
        if "IfNoneMatch" in request and (request["Bucket"], request["Key"]) in self.objects:
            raise refusal("PreconditionFailed", "At least one of the pre-conditions you specified did not hold", 412)
        versions = self.objects.setdefault((request["Bucket"], request["Key"]), [])
        versions.append(bytes(request["Body"]))
        return {"VersionId": str(len(versions))}

    def get_object(self, **request: Any) -> dict[str, Any]:
        """Read a version, or a range of it."""
        versions = self.objects.get((request["Bucket"], request["Key"]))
        if not versions:
            raise NoSuchKeyError({"Error": {"Code": "NoSuchKey", "Message": request["Key"]}}, "GetObject")
        number = int(request.get("VersionId", len(versions)))
        content = versions[number - 1]
        match = _RANGE.fullmatch(request.get("Range", ""))
        if match:
            start, end = int(match[1]), int(match[2]) + 1
            if start >= len(content):
                raise refusal("InvalidRange", "The requested range is not satisfiable", 416)
            content = content[start:end]
        body = StreamingBody(io.BytesIO(content), len(content))
        return {"ContentLength": len(content), "Body": body, "VersionId": str(number)}

    def get_paginator(self, _operation: str) -> Bucket:
        """Return a paginator of the only operation whose pages callers read: list_objects_v2."""
        return self

    def paginate(self, **request: Any) -> Iterator[dict[str, Any]]:
        """Yield the only page of list_objects_v2."""
        listed = self._listed(request)
        contents = [{"Key": key, "Size": len(versions[-1])} for key, versions in listed]
        yield {"Contents": [entry for entry in contents if entry["Key"] > request.get("StartAfter", "")]}

    def list_object_versions(self, **request: Any) -> dict[str, Any]:
        """Return the versions of the objects with a prefix, the newest of each object first."""
        versions = [
            {"Key": key, "VersionId": str(number)}
            for key, contents in self._listed(request)
            for number in range(len(contents), 0, -1)
        ]
        return {"Versions": versions[: request.get("MaxKeys", 1000)]}

    def _listed(self, request: dict[str, Any]) -> list[tuple[str, list[bytes]]]:
        return sorted(
            (key, versions)
            for (bucket, key), versions in self.objects.items()
            if bucket == request["Bucket"] and key.startswith(request["Prefix"])
        )
