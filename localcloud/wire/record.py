"""The record: all accepted mutating calls, in the order of acceptance; entries never change.

It contains calls over HTTP: from users, Lambda functions, orchestrators, training containers, and from CloudFormation
(principal "cloudformation.amazonaws.com") for the types that `cloudformation.providers` provision. It does not contain
actions inside the server, such as networks and other types that moto's own models create, or event deliveries.
"""

import io
import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from werkzeug.wrappers import Response

from localcloud.credentials import access_keys
from localcloud.wire.protocols import Call, Request, abridged, read_call
from localcloud.wire.refusals import refusal
from localcloud.wire.signature import Signature, signature_of

_READING = (
    "Describe", "Get", "List", "Head", "BatchGet", "TransactGet", "Query", "Scan", "Select", "Search", "Lookup",
    "Filter", "Test", "Validate", "Estimate", "Simulate", "Check", "Preview", "Receive", "Assume", "BatchCheck",
)  # fmt: skip
"""Prefixes of the operations that change nothing that a test would check (botocore's service models)."""

_SECRETS = re.compile(
    r".*(password|secretaccesskey|sessiontoken|authorizationtoken|secretstring|secretbinary|responseurl|privatekey)",
    re.IGNORECASE,
)
"""Names of fields that are recorded as `***`: AWS's services mark most of them as sensitive in their models."""
_ADDRESS = re.compile(r"(/localcloud/(?:cloudformation/answers|runtime)/)[0-9a-f]{32}")
"""The address to which a custom resource sends its answer, also within a text: its last part is its only protection."""
_REDACTED = "***"
_MAX_RESPONSE_BYTES = 4096

_RESERVE_BYTES = 32 * 2**20
"""Minimum free space for a mutating call: an entry is at most a few KiB, and other processes also write."""

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class RecordError(Exception):
    """The record cannot be written; the message gives the place and the reason."""


class Record:
    """Append-only list of accepted mutating calls, in memory and as JSON lines in a file.

    An entry has `seq` (from 1), `time` (seconds since 1970), `service` (signing name), `action`, `region`,
    `principal` (an ARN, or CloudFormation's service name), `access_key`, `parameters`, `status` (HTTP), `request_id`
    and `response` (a short JSON response, otherwise null).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._file: io.FileIO | None = None
        self._unwritten_bytes = b""

    def begin(self) -> None:
        """Start an empty record; the previous server's record becomes `record.previous.jsonl`."""
        with self._lock:
            self._entries.clear()
            self._unwritten_bytes = b""
            if self._path.exists():
                self._path.replace(self._path.with_suffix(".previous.jsonl"))
            self._file = io.FileIO(self._path, "a")  # unbuffered: each line is written at once

    def end(self) -> None:
        """Close the file when the server stops."""
        with self._lock:
            if self._file:
                self._file.close()
                self._file = None

    def require_room(self) -> None:
        """Check that another entry can be written, before a call takes effect.

        Raises:
            RecordError: If the disk is full, or an earlier entry has not been written yet.
        """
        with self._lock:
            if not self._file:
                return
            free = shutil.disk_usage(self._path.parent).free
            if free < _RESERVE_BYTES:
                message = f"only {free // 2**20} MiB are free in {self._path.parent}"
                raise RecordError(message)
            if self._unwritten_bytes:
                self._write()
            if self._unwritten_bytes:
                message = f"{self._path} cannot be written"
                raise RecordError(message)

    def append(self, entry: dict[str, Any]) -> None:
        """Add one entry, with its number and time.

        An entry that cannot be written despite the earlier check is written before the next call is accepted.
        """
        with self._lock:
            numbered_entry = {"seq": len(self._entries) + 1, "time": time.time(), **entry}
            self._entries.append(numbered_entry)
            self._unwritten_bytes += json.dumps(numbered_entry, default=str).encode() + b"\n"
            self._write()

    def _write(self) -> None:
        while self._file and self._unwritten_bytes:
            try:
                count = self._file.write(self._unwritten_bytes)
            except OSError as error:
                print(f"localcloud cannot write {self._path}: {error.strerror}", file=sys.stderr, flush=True)
                return
            self._unwritten_bytes = self._unwritten_bytes[count:]

    def entries(self, service: str | None = None, action: str | None = None, *, after: int = 0) -> list[dict[str, Any]]:
        """Return the entries so far, oldest first.

        Args:
            service: Only this service (signing name, for example "batch", "sagemaker").
            action: Only this operation, for example "SubmitJob".
            after: Only entries with a higher `seq`.
        """
        with self._lock:
            entries = self._entries[after:]
        return [entry for entry in entries if service in (None, entry["service"]) and action in (None, entry["action"])]


class Recorder:
    """WSGI middleware that records the calls of the application behind it."""

    def __init__(self, application: WsgiApp, record: Record) -> None:
        self._application = application
        self._record = record

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Forward a request and record it after the application has accepted it, before the response is sent."""
        signature = signature_of(environ)
        if signature is None or _only_reads(environ):
            return self._application(environ, start_response)
        call = read_call(signature.service, buffered(environ))
        if call is None or call.action.startswith(_READING):
            return self._application(environ, start_response)
        try:
            self._record.require_room()
        except RecordError as error:
            return _refuse_unrecorded(environ, signature, call, error)(environ, start_response)
        started: list[Any] = []
        answer = self._application(environ, lambda *arguments: started.append(arguments))
        chunks = list(answer)
        status, headers = started[-1][0], started[-1][1]
        if int(status.split()[0]) < HTTPStatus.MULTIPLE_CHOICES:
            self._record.append(
                {
                    "service": signature.service,
                    "region": signature.region,
                    "access_key": signature.access_key,
                    "principal": access_keys.principal_of(signature.access_key),
                    **_outcome(call, int(status.split()[0]), dict(headers), b"".join(chunks)),
                }
            )
        start_response(*started[-1])
        return chunks


def _refuse_unrecorded(environ: dict[str, Any], signature: Signature, call: Call, error: RecordError) -> Response:
    """Refuse a call that cannot be recorded; not with 500 or 503, because SDKs would retry those silently."""
    message = f"localcloud cannot record {call.action} and did not run it: {error}. Free some space and try again."
    return refusal(environ, HTTPStatus.INSUFFICIENT_STORAGE, "InsufficientStorage", message, signature.service)


def _only_reads(environ: dict[str, Any]) -> bool:
    """Return True if the HTTP method is read-only; only the query protocol allows a GET that changes something."""
    method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
    return method in ("HEAD", "OPTIONS") or (method == "GET" and "Action=" not in query)


def buffered(environ: dict[str, Any]) -> Request:
    """Return the whole request; the application can read the body again."""
    length = environ.get("CONTENT_LENGTH")
    stream = environ["wsgi.input"]
    body = b""
    if length:
        body = stream.read(int(length))
    elif environ.get("wsgi.input_terminated"):
        body = stream.read()
    environ["wsgi.input"] = io.BytesIO(body)
    return Request(
        method=environ["REQUEST_METHOD"],
        path=environ.get("PATH_INFO", "/").encode("latin-1").decode(errors="replace"),  # PEP 3333
        query=environ.get("QUERY_STRING", ""),
        target=environ.get("HTTP_X_AMZ_TARGET", ""),
        content_type=environ.get("CONTENT_TYPE", ""),
        headers=frozenset(name[5:].replace("_", "-").lower() for name in environ if name.startswith("HTTP_")),
        body=body,
        raw_path=urlsplit(str(environ.get("RAW_URI", ""))).path,
    )


def _outcome(call: Call, status: int, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    value_by_header = {name.lower(): value for name, value in headers.items()}
    return {
        "action": call.action,
        "parameters": _without_secrets(call.parameters),
        "status": status,
        "request_id": value_by_header.get("x-amzn-requestid") or value_by_header.get("x-amz-request-id"),
        "response": _short_json(body),
    }


def _short_json(body: bytes) -> Any:
    if len(body) > _MAX_RESPONSE_BYTES or body[:1] != b"{":
        return None
    try:
        return abridged(_without_secrets(json.loads(body)))
    except ValueError:
        return None


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        secure = value.get("Type") == "SecureString"  # of SSM's PutParameter

        def is_secret(key: object) -> bool:
            return bool(_SECRETS.fullmatch(str(key))) or (secure and key == "Value")

        return {key: _REDACTED if is_secret(key) else _without_secrets(item) for key, item in value.items()}
    if isinstance(value, str):
        return _ADDRESS.sub(rf"\1{_REDACTED}", value)
    return [_without_secrets(item) for item in value] if isinstance(value, list | tuple) else value
