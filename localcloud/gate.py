"""The first thing a request meets: localcloud's own pages, and the refusal of calls without keys or with keys of
the real AWS."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from werkzeug.wrappers import Request, Response

from localcloud import isolation
from localcloud.record import Record, StartResponse, WsgiApp
from localcloud.refusals import refusal
from localcloud.signature import Signature, signature_of

Page = Callable[[Request], Response]


class Gate:
    """WSGI middleware in front of everything else.

    `GET /localcloud/status` answers `{"pid": ..., "data_dir": ...}`; `GET /localcloud/record?after=N` answers
    `{"entries": [...]}`. Other modules add pages of their own.
    """

    def __init__(self, application: WsgiApp, record: Record, data_dir: str, pages: Mapping[str, Page]) -> None:
        self._application = application
        self._record = record
        self._data_dir = data_dir
        self._pages = pages

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer, refuse or pass on one request."""
        page = self._page(environ)
        if page is not None:
            return page(environ, start_response)
        signature = signature_of(environ)
        if signature is None:
            return _unsigned(environ)(environ, start_response)
        if isolation.is_foreign(signature.access_key):
            return _foreign(environ, signature)(environ, start_response)
        try:
            return self._application(environ, start_response)
        except NotImplementedError as error:  # moto's way of saying that it lacks an operation
            return _unknown(environ, signature, error)(environ, start_response)

    def _page(self, environ: dict[str, Any]) -> Response | None:
        path = environ.get("PATH_INFO", "")
        if path == "/localcloud/status":
            return _json({"pid": os.getpid(), "data_dir": self._data_dir})
        if path == "/localcloud/record":
            after = int(parse_qs(environ.get("QUERY_STRING", "")).get("after", ["0"])[0])
            return _json({"entries": self._record.entries(after=after)})
        handler = next((page for beginning, page in self._pages.items() if path.startswith(beginning)), None)
        return handler(Request(environ)) if handler else None


def _json(value: Any) -> Response:
    return Response(json.dumps(value, default=str), mimetype="application/json")


def _foreign(environ: dict[str, Any], signature: Signature) -> Response:
    """AWS, "Common errors": InvalidClientTokenId, HTTP 403."""
    message = (
        f"The access key {signature.access_key[:4]}... is none of localcloud's"
        f"{', it looks like a real AWS key' if signature.access_key.startswith(('AKIA', 'ASIA')) else ''}. "
        f"Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to {isolation.DUMMY_KEY}: "
        "`traingrid local up` prints the lines."
    )
    return refusal(environ, HTTPStatus.FORBIDDEN, "InvalidClientTokenId", message, signature.service)


def _unsigned(environ: dict[str, Any]) -> Response:
    """AWS, "Common errors": MissingAuthenticationToken, HTTP 403; moto would do what nobody has signed for."""
    message = f"Request is missing Authentication Token: sign it with the keys {isolation.DUMMY_KEY}."
    service = "" if "HTTP_X_AMZ_TARGET" in environ else "s3"
    return refusal(environ, HTTPStatus.FORBIDDEN, "MissingAuthenticationToken", message, service)


def _unknown(environ: dict[str, Any], signature: Signature, error: NotImplementedError) -> Response:
    """AWS, "Common errors": InvalidAction, HTTP 400; a 500 would make every SDK try again."""
    return refusal(environ, HTTPStatus.BAD_REQUEST, "InvalidAction", f"{error} in localcloud.", signature.service)
