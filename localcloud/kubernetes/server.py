"""Server: serves the API of a cluster over HTTPS, with a certificate of its authority, as Amazon EKS does."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from localcloud.kubernetes import pod_requests, tables, watch
from localcloud.kubernetes.api import Api, ApiRequest, Reply
from localcloud.kubernetes.server_faults import ServerFaults
from localcloud.kubernetes.status import ApiError, unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from localcloud.eks.cluster_calls import ClusterCalls
    from localcloud.faults.plan import CallFault
    from localcloud.kubernetes.certificate import Certificate
    from localcloud.kubernetes.paths import Target

_MAX_BODY = 3 << 20
"""The largest body that kube-apiserver accepts (its MaxRequestBodyBytes)."""
_AFTER = ("lose_reply", "error_after", "kill_after")
"""Effects of faults that strike a request after it took effect."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ClusterServer:
    """An HTTPS server of one cluster on this machine.

    Args:
        certificate: The server's certificate and key.
        admit: Raises ApiError if the token in the first argument may not use the verb in the second on the target.
        calls: The faults and the record of requests; None for neither.
    """

    def __init__(
        self,
        api: Api,
        certificate: Certificate,
        admit: Callable[[str, str, Target | None], None],
        calls: ClusterCalls | None = None,
    ) -> None:
        self.api, self.admit, self.calls = api, admit, calls
        self.stopped = threading.Event()
        self.faults = ServerFaults()
        self._http = _Http(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": self}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def address(self) -> str:
        """The URL of the server."""
        return f"https://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        """Serve until the block ends."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watches and the server."""
        self.stopped.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    """The server of the connections."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have closed their connection, for example because they were killed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    cluster: ClusterServer

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer a request of any method."""
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        try:
            request = ApiRequest(
                method=self.command,
                path=split.path,
                query=dict(parse_qsl(split.query)),
                content_type=self.headers.get("Content-Type", "application/json"),
                accept=self.headers.get("Accept", ""),
                body=self._body(length),
            )
            self._answer(request)
        except ApiError as error:
            self._reply(Reply(code=error.code, body=error.body()))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  # the names that http.server calls

    def _answer(self, request: ApiRequest) -> None:
        """Answer a request, with the faults that strike it."""
        api, target = self.cluster.api, self.cluster.api.target(request.path)
        watched = request.method == "GET" and request.query.get("watch") in ("1", "true")
        self.cluster.faults.check()
        token = self._token()
        verb = _verb(request, target, watched=watched)
        calls = self.cluster.calls
        fault = calls.fault(token, verb, target) if calls else None
        breaks_at = float("inf")
        if fault and watched and fault.effect == "lose_reply":
            breaks_at = time.monotonic() + fault.seconds
        elif calls and fault and (fault.effect not in _AFTER or request.method == "GET"):
            self._apply_fault(calls, fault, token)
            return
        self.cluster.admit(token, verb, target)
        self.cluster.faults.check_webhook(verb, target)
        if target and pod_requests.is_log(target) and request.method == "GET":
            stopped = self.cluster.stopped.is_set
            self._stream(pod_requests.log(api.store, api.logs, target, request.query, stopped), "text/plain")
        elif watched and target:
            stopped = self.cluster.stopped.is_set
            watch_ended = self.cluster.faults.watch_ended()
            is_over = lambda: stopped() or watch_ended() or time.monotonic() >= breaks_at  # noqa: E731 - shorter than a function
            events = watch.events(api.store, target, request.query, is_over)
            if tables.is_table(request.accept):
                events = tables.as_tables(target.resource, events)
            lines = (json.dumps(event).encode() + b"\n" for event in events)
            self._stream(lines, "application/json", lambda: time.monotonic() >= breaks_at)
        else:
            self._finish(request, target, verb, fault)

    def _finish(self, request: ApiRequest, target: Target | None, verb: str, fault: CallFault | None) -> None:
        """Answer a request whose reply is not a stream."""
        calls, token = self.cluster.calls, self._token()
        if calls:
            calls.require_room(verb)
        reply = self.cluster.api.answer(request)
        if calls and target:
            calls.append(token, verb, target, reply)
        if calls and fault:
            self._apply_fault(calls, fault, token)
        else:
            self._reply(reply)

    def _apply_fault(self, calls: ClusterCalls, fault: CallFault, token: str) -> None:
        """Send the error of a fault, or close the connection."""
        error = calls.strike(fault, token)
        if error:
            raise error
        self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _body(self, length: int) -> bytes:
        if length > _MAX_BODY:
            self.close_connection = True
            while length > 0 and (read := self.rfile.read(min(length, _MAX_BODY))):  # a client first sends all of it
                length -= len(read)
            limit = f"Request entity too large: limit is {_MAX_BODY}"
            raise ApiError(code=413, reason="RequestEntityTooLarge", message=limit)
        return self.rfile.read(length)

    def _token(self) -> str:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            raise unauthorized()
        return token

    def _reply(self, reply: Reply) -> None:
        content = json.dumps(reply.body).encode()
        self.send_response(reply.code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        details = reply.body.get("details") or {}
        if reply.code == HTTPStatus.TOO_MANY_REQUESTS and details.get("retryAfterSeconds"):
            self.send_header("Retry-After", str(details["retryAfterSeconds"]))
        for warning in reply.warnings:
            quoted = warning.replace('"', "'")
            self.send_header("Warning", f'299 - "{quoted}"')
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, lines: Iterator[bytes], media: str, breaks: Callable[[], bool] = lambda: False) -> None:
        """Send the lines of a chunked reply, until they end or the client disconnects.

        Args:
            media: The media type.
            breaks: Returns True if the connection breaks after the last line.
        """
        self.send_response(200)
        self.send_header("Content-Type", media)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for line in lines:
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()
            if breaks() or (media == "application/json" and self.cluster.faults.abrupt):
                self._hang_up()
                return
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


def _verb(request: ApiRequest, target: Target | None, *, watched: bool) -> str:
    """Return the verb of a request, as authorization rules name it."""
    if request.method == "DELETE" and target and not target.name:
        return "deletecollection"
    if request.method in _VERBS:
        return _VERBS[request.method]
    if watched:
        return "watch"
    return "get" if target is None or target.name else "list"
