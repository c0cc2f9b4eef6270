"""S3 URIs: parses and formats the URIs of objects, prefixes and object versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
_BUCKET = re.compile(
    r"^(?!xn--|sthree-|amzn-s3-demo-)(?!.*\.\.)(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
)
MAX_KEY_BYTES = 1024
"""The maximum length of a key, in UTF-8 (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html)."""
# As S3's own URLs name a version (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
_VERSIONED = re.compile(r"(.*)\?versionId=([A-Za-z0-9._~-]{1,1024})", re.DOTALL)


@dataclass(frozen=True)
class S3Uri:
    """A bucket and a key or prefix.

    Attributes:
        key: The key or prefix, without a leading or trailing slash; may be empty.
    """

    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `s3://bucket/prefix`.

        Raises:
            ValueError: The text is not an S3 URI; the message names the violated rule.
        """
        scheme, separator, location = text.partition("://")
        if not separator or scheme != "s3":
            raise ValueError("the URI must start with s3://")
        bucket, _, key = location.partition("/")
        if not _BUCKET.match(bucket):
            raise ValueError("the bucket name after s3:// is invalid")
        key = key.rstrip("/")
        if key and not {"", ".", ".."}.isdisjoint(key.split("/")):
            raise ValueError("the key must not have an empty, '.' or '..' part")
        if not key.isprintable():
            raise ValueError("the key must not contain control characters")
        if len(key.encode()) > MAX_KEY_BYTES:
            raise ValueError(f"the key must have at most {MAX_KEY_BYTES} bytes")
        return cls(bucket, key)

    def __truediv__(self, part: str) -> S3Uri:
        return S3Uri(self.bucket, f"{self.key}/{part}" if self.key else part)

    def __str__(self) -> str:
        """Return the URI; control characters, which a key from another source than `parse` may have, become escapes."""
        text = f"s3://{self.bucket}/{self.key}"
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def prefix_of(text: str) -> S3Uri:
    """Return the prefix in `s3://bucket/prefix`, unchanged, including a trailing slash.

    Raises:
        ValueError: The text is not an S3 URI.
    """
    uri = S3Uri.parse(text)
    return S3Uri(uri.bucket, uri.key + "/" * bool(uri.key and text.endswith("/")))


def path_in_channel(prefix: str, key: str) -> str:
    """Return the path of an object in the folder of a channel with an S3 prefix.

    Below a folder, it is the rest of the key. If the prefix is an object's key, or only the start of keys, the part
    after its last slash is kept.
    """
    return key[len(prefix) + 1 :] if prefix and key.startswith(f"{prefix}/") else key[prefix.rfind("/") + 1 :]


@dataclass(frozen=True)
class ObjectVersion(S3Uri):
    """One version of an object, whose content never changes.

    Attributes:
        version: S3's version id; empty for the current version.
    """

    version: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `s3://bucket/key` or `s3://bucket/key?versionId=...`.

        Raises:
            ValueError: The text is not an S3 URI; the message names the violated rule.
        """
        match = _VERSIONED.fullmatch(text)
        uri = S3Uri.parse(match[1] if match else text)
        return cls(uri.bucket, uri.key, match[2] if match else "")

    def __str__(self) -> str:
        return super().__str__() + (f"?versionId={self.version}" if self.version else "")
