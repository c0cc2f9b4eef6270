"""Canned AWS: replies of AWS for one process, without a server, in the place of the requests of all boto3 clients."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
from botocore.awsrequest import AWSResponse

Reply = Callable[[Any], Any]
"""Returns the JSON document of the reply to a request; one with `__type` is an error."""
ENDPOINT = "http://127.0.0.1:9"
"""The endpoint of all services, in AWS_ENDPOINT_URL: an address without a server, so that no request can leave."""
_NO_SUCH_KEY = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"


class ReachedError(BaseException):
    """The request at which a measurement ends. No handler of `Exception` may catch it."""


class _Body(BytesIO):
    def stream(self, **_: object) -> "_Body":
        """Return the body, as urllib3's responses do."""
        return self


@dataclass(kw_only=True)
class CannedAws:
    """Replies to requests, and counts them.

    Attributes:
        replies: The reply to each operation, such as `batch.SubmitJob`; an empty one if it is missing. S3 needs none.
        objects: The objects of S3, by path, `/bucket/key`. Listings do not show them, but one file in any folder.
        ends_at: Returns True for the operation at which the measurement ends.
        calls: The number of requests by service and operation.
        bytes: The bytes of the bodies that were sent and received.
    """

    replies: Mapping[str, Reply] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    ends_at: Callable[[str], bool] = lambda _: False
    calls: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def install(self) -> None:
        """Reply to all clients created from now on, which inherit handlers from boto3's default session."""
        boto3.setup_default_session()
        boto3._get_default_session().events.register("before-send", cast(Callable[..., None], self._send))

    def _send(self, request: Any, event_name: str, **_: object) -> AWSResponse:
        operation = event_name.removeprefix("before-send.")
        self.calls[operation] += 1
        if self.ends_at(operation):
            raise ReachedError
        sent = request.body.read() if hasattr(request.body, "read") else request.body or b""
        status, headers, body = 200, {"x-amzn-requestid": "canned", "content-type": "application/x-amz-json-1.0"}, b""
        if operation == "s3.PutObject":
            self.objects[unquote(urlsplit(request.url).path)] = sent
            headers["x-amz-version-id"] = "1"
        elif operation == "s3.GetObject":
            stored = self.objects.get(unquote(urlsplit(request.url).path))
            status, body = (404, _NO_SUCH_KEY) if stored is None else (200, _part(stored, request.headers.get("Range")))
        elif operation == "s3.ListObjectsV2":
            body = _listing(parse_qs(urlsplit(request.url).query)["prefix"][0])
        elif not operation.startswith("s3."):
            reply = self.replies[operation](json.loads(sent or b"{}")) if operation in self.replies else {}
            status, body = 400 if "__type" in reply else 200, json.dumps(reply).encode()
        self.bytes += len(sent) + len(body)
        headers["content-length"] = str(len(body))
        return AWSResponse(request.url, status, cast(Any, headers), _Body(body))


def _listing(prefix: str) -> bytes:
    """Return a reply that lists one object of data below a prefix."""
    return f"<ListBucketResult><Contents><Key>{prefix}a</Key><Size>1</Size></Contents></ListBucketResult>".encode()


def _part(content: bytes, wanted: "str | bytes | None") -> bytes:
    """Return the part of an object that the header Range selects."""
    if not wanted:
        return content
    text = wanted.decode() if isinstance(wanted, bytes) else wanted
    first, _, last = text.removeprefix("bytes=").partition("-")
    return content[int(first) : int(last) + 1]
