"""Request filter: refuses web pages, foreign hosts and callers without the secret, before all other handlers."""

import errno
import io
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from werkzeug.wrappers import Request, Response

from localcloud.credentials import access_keys
from localcloud.wire.protocols import read_call
from localcloud.wire.record import Record, StartResponse, WsgiApp, buffered
from localcloud.wire.refusals import XML_SERVICES, refusal
from localcloud.wire.signature import Signature, signature_of
from localcloud.wire.signature_check import flaw_of

Page = Callable[[Request], Response]

_OWN_NAMES = re.compile(r"(127\.0\.0\.1|\[::1\]|([a-z0-9-]+\.)*localhost):(?P<port>\d+)", re.IGNORECASE)
"""Names of this machine that need no DNS: `localhost` and its subdomains resolve to loopback (RFC 6761)."""
_OF_BROWSERS = ("HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE")
"""Headers that browsers add to the requests of a page. A page can neither set nor omit them, and no AWS client sends
them (https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/)."""
_WITH_A_TOKEN = ("/localcloud/runtime/", "/localcloud/cloudformation/answers/")
"""Pages whose path contains a random token of 122 bits instead of a signature, as in AWS: Lambda's runtime API, and the
presigned URL for a custom resource's response."""
_PAGE = b"<!doctype html>"
_NO_ROUTE = (str(HTTPStatus.NOT_FOUND.value), str(HTTPStatus.METHOD_NOT_ALLOWED.value))
_NEXT_STEP = 'In the folder of this server, `eval "$(localcloud env)"` sets its keys.'


class RequestFilter:
    """WSGI middleware in front of all other handlers.

    `GET /localcloud/status` returns `{"pid": ..., "data_dir": ...}`; `GET /localcloud/record?after=N` returns
    `{"entries": [...]}`. Other modules add further pages. Sign requests for these pages like any other call, with the
    keys of a user and any service name:

        curl --aws-sigv4 aws:amz:us-east-1:localcloud -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" ...
    """

    def __init__(self, application: WsgiApp, record: Record, data_dir: str, pages: Mapping[str, Page]) -> None:
        self._application = application
        self._record = record
        self._data_dir = data_dir
        self._pages = pages

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer, refuse or forward one request."""
        if response := _refuse_page(environ):
            return response(environ, start_response)
        path = environ.get("PATH_INFO", "")
        signature = signature_of(environ)
        if not path.startswith(_WITH_A_TOKEN) and (response := _not_ours(environ, signature)):
            return response(environ, start_response)
        if path.startswith("/localcloud/"):
            return self._page(path, environ, signature)(environ, start_response)
        try:
            return self._forward(environ, start_response, signature)
        except ConnectionError:  # a fault plan loses this reply
            raise
        except Exception as error:  # noqa: BLE001 - every exception of moto is answered
            return _answer_to(error, environ, signature)(environ, start_response)

    def _forward(
        self, environ: dict[str, Any], start_response: StartResponse, signature: Signature | None
    ) -> Iterable[bytes]:
        """Forward a request; moto answers a REST operation that it lacks with an HTML page of its web framework.

        Raises:
            NotImplementedError: If moto lacks the operation.
        """
        started: list[Any] = []
        answer = self._application(environ, lambda *arguments: started.append(arguments))
        status, headers = started[-1][:2]
        if status.startswith(_NO_ROUTE) and dict(headers).get("Content-Type", "").startswith("text/html"):
            answer = list(answer)
            if b"".join(answer).startswith(_PAGE):  # HeadBucket's 404 has the same content type, but no body
                raise NotImplementedError(f"The operation {_operation(environ, signature)} has not been implemented")
        start_response(*started[-1])
        return answer

    def _page(self, path: str, environ: dict[str, Any], signature: Signature | None) -> Response:
        if signature and not access_keys.is_user(signature.access_key):
            message = f"{path} is for users of localcloud, not for roles."
            return refusal(environ, HTTPStatus.FORBIDDEN, "AccessDeniedException", message, "")
        if path == "/localcloud/status":
            return _json({"pid": os.getpid(), "data_dir": self._data_dir})
        if path == "/localcloud/record":
            after = parse_qs(environ.get("QUERY_STRING", "")).get("after", ["0"])[0]
            if not after.isdigit():
                return Response(f"after must be the number of an entry; got {after!r}.\n", HTTPStatus.BAD_REQUEST)
            return _json({"entries": self._record.entries(after=int(after))})
        handler = next((page for beginning, page in self._pages.items() if path.startswith(beginning)), None)
        return handler(Request(environ)) if handler else Response(f"No such page: {path}.\n", HTTPStatus.NOT_FOUND)


def _json(value: Any) -> Response:
    return Response(json.dumps(value, default=str), mimetype="application/json")


def _refuse_page(environ: dict[str, Any]) -> Response | None:
    """Refuse a request that a web page can send: it has a browser's header, or a foreign host name."""
    header = next((name for name in _OF_BROWSERS if name in environ), None)
    if header:
        name = header.removeprefix("HTTP_").replace("_", "-").title()
        message = f"localcloud refuses requests of browsers: this request has the header {name}. Use an AWS client."
        return refusal(environ, HTTPStatus.FORBIDDEN, "AccessDeniedException", message, "")
    host = environ.get("HTTP_HOST", "")
    port = environ["SERVER_PORT"]
    match = _OWN_NAMES.fullmatch(host)
    if match and match["port"] == port:
        return None
    message = f"localcloud answers only at 127.0.0.1:{port} and localhost:{port}; the request's host is {host!r}."
    return refusal(environ, HTTPStatus.FORBIDDEN, "AccessDeniedException", message, "")


def _not_ours(environ: dict[str, Any], signature: Signature | None) -> Response | None:
    """Refuse a caller that does not know this server's secret."""
    if signature is None:
        return _unsigned(environ)
    credentials = access_keys.credentials_of(signature.access_key)
    if credentials is None:
        return _foreign(environ, signature)
    flaw = flaw_of(environ, signature, credentials)
    if flaw is None:
        return None
    # The code of S3 and of the query protocol (S3, "List of error codes"), and the code of the JSON services (AWS,
    # "Common errors").
    code = "SignatureDoesNotMatch" if signature.service in XML_SERVICES else "InvalidSignatureException"
    return refusal(environ, HTTPStatus.FORBIDDEN, code, f"{flaw} {_NEXT_STEP}", signature.service)


def _foreign(environ: dict[str, Any], signature: Signature) -> Response:
    """Return AWS's error InvalidClientTokenId, HTTP 403 (AWS, "Common errors")."""
    message = (
        f"The access key {signature.access_key[:4]}... was not issued by localcloud"
        f"{'; it looks like a real AWS key' if signature.access_key.startswith(('AKIA', 'ASIA')) else ''}. {_NEXT_STEP}"
    )
    return refusal(environ, HTTPStatus.FORBIDDEN, "InvalidClientTokenId", message, signature.service)


def _unsigned(environ: dict[str, Any]) -> Response:
    """Return MissingAuthenticationToken, HTTP 403 (AWS, "Common errors"); moto would accept an unsigned call."""
    message = f"Request is missing Authentication Token. {_NEXT_STEP}"
    service = "" if "HTTP_X_AMZ_TARGET" in environ else "s3"
    return refusal(environ, HTTPStatus.FORBIDDEN, "MissingAuthenticationToken", message, service)


def _answer_to(error: Exception, environ: dict[str, Any], signature: Signature | None) -> Response:
    if isinstance(error, NotImplementedError):  # raised by moto for an operation that it lacks
        return _invalid_action(environ, signature, error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(environ, signature, error)
    return _failure(environ, signature, error)


def _disk_full(environ: dict[str, Any], signature: Signature | None, error: OSError) -> Response:
    """Return an error other than 500 and 503, because SDKs would retry those silently."""
    place = f" in {error.filename}" if error.filename else ""
    message = f"localcloud could not finish this call: {error.strerror}{place}. Free some space and try again."
    service = signature.service if signature else ""
    return refusal(environ, HTTPStatus.INSUFFICIENT_STORAGE, "InsufficientStorage", message, service)


def _operation(environ: dict[str, Any], signature: Signature | None) -> str:
    """Return the operation of a request whose body has been read, or its path."""
    request = buffered({**environ, "wsgi.input": io.BytesIO(), "CONTENT_LENGTH": ""})
    call = read_call(signature.service, request) if signature else None
    return call.action if call else str(environ["PATH_INFO"])


def _failure(environ: dict[str, Any], signature: Signature | None, error: Exception) -> Response:
    """Return InternalFailure, HTTP 500 (AWS, "Common errors"), which SDKs retry; moto's own answer is an HTML page."""
    operation = _operation(environ, signature)
    logging.getLogger(__name__).error("%s failed.", operation, exc_info=error)
    kind = type(error).__name__
    message = f"The operation {operation} failed in localcloud: {kind}. server.log in its folder has the traceback."
    service = signature.service if signature else ""
    return refusal(environ, HTTPStatus.INTERNAL_SERVER_ERROR, "InternalFailure", message, service)


def _invalid_action(environ: dict[str, Any], signature: Signature | None, error: NotImplementedError) -> Response:
    """Return InvalidAction, HTTP 400 (AWS, "Common errors"), because SDKs would retry a 500."""
    return refusal(
        environ,
        HTTPStatus.BAD_REQUEST,
        "InvalidAction",
        f"{error} in localcloud.",
        signature.service if signature else "",
    )
