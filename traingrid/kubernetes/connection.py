"""Connection: requests to the API server of a cluster, with tokens, repetitions and errors that have a cause."""

from __future__ import annotations

import logging
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode, urlsplit

import urllib3

from traingrid.kubernetes.errors import UNAUTHORIZED, ApiError, NoReplyError, UnavailableError, error_of
from traingrid.late_request import raise_if_late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traingrid.kubernetes.cluster import Cluster
    from traingrid.kubernetes.token import Tokens

logger = logging.getLogger(__name__)
_REJECTED, _SERVER_ERROR = 400, 500
_CONNECTIONS = 4
_MAX_WAIT = 10.0


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Timeouts and the number of tries of a client's requests.

    Attributes:
        connect: The timeout of a connection, in seconds.
        read: The timeout between two bytes of a reply, in seconds.
        tries: The number of times that a request is sent if it may be repeated.
    """

    connect: float = 10.0
    read: float = 60.0
    tries: int = 3


class Explain(Protocol):
    """Adds the cause and the next step to an error."""

    def __call__(self, error: ApiError, *, was_accepted: bool) -> None:
        """Change the text of an error.

        Args:
            was_accepted: True if the server has accepted a token of the client before.
        """


class Connection:
    """Sends requests to the API server of a cluster; threads may share it.

    Args:
        tokens: The tokens of the role that the process has.
        sleep: Waits for a number of seconds.
        clock: Returns monotonic seconds.
        explain: Called with each error before it is raised.
    """

    def __init__(  # noqa: PLR0913  # two are for tests
        self,
        cluster: Cluster,
        tokens: Tokens,
        *,
        limits: RequestLimits,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        explain: Explain | None = None,
    ) -> None:
        self.cluster, self.limits, self.sleep = cluster, limits, sleep
        self._tokens, self._clock, self._explain = tokens, clock, explain
        self._is_known = False
        self._refused_at: float | None = None
        self._http = urllib3.PoolManager(
            maxsize=_CONNECTIONS, retries=False, ssl_context=_tls_context(cluster.authority)
        )

    def read(  # noqa: PLR0913, PLR0917  # the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        media: str = "application/json",
        tries: int | None = None,
    ) -> bytes:
        """Send a request as `reply` does, and return the content of its reply."""
        reply = self.reply(method, path, query, content, media, tries)
        try:
            return reply.read()
        except urllib3.exceptions.HTTPError as error:
            raise self._no_reply(error) from error
        finally:
            reply.release_conn()

    def reply(  # noqa: PLR0913, PLR0917  # the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        media: str = "application/json",
        tries: int | None = None,
        silent_seconds: float = 0.0,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request until it is answered, at most `tries` times, and return a reply that is no error.

        An expired token costs no try. After further replies with 401, any request is repeated as often as a read.

        Args:
            tries: The number of times that it may be sent; by default that of the limits.
            silent_seconds: The time for which the reply may be silent, in addition to the limit.

        Raises:
            ApiError: The request was refused, or the server did not answer.
            LateRequestError: A creation was not sent (`traingrid.late_request`).
        """
        url = f"{self.cluster.endpoint}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout = urllib3.Timeout(connect=self.limits.connect, read=silent_seconds + self.limits.read)
        remaining_tries, refusals = tries or self.limits.tries, 0
        while True:
            token = self._tokens.current()
            if method == "POST" and tries == 1:  # `Client.create`; the token was signed before
                raise_if_late()
            logger.debug("Kubernetes call: %s %s", method, path)
            try:
                return self._send_once(method, url, content, media, token, timeout)
            except UnavailableError as error:
                if error.code == UNAUTHORIZED:
                    self._tokens.discard(token)
                    refusals += 1
                    if refusals == 1:
                        continue
                else:
                    remaining_tries -= 1
                if remaining_tries <= 0 or refusals > self.limits.tries:
                    raise
                self.sleep(min(error.retry_after or 1.0, _MAX_WAIT))

    def _send_once(  # noqa: PLR0913, PLR0917  # the parts of a request
        self, method: str, url: str, content: bytes | None, media: str, token: str, timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        """Send a request once, and return a reply that is no error."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": media}
        try:
            reply = self._http.request(
                method, url, body=content, headers=headers, preload_content=False, timeout=timeout
            )
            if reply.status < _REJECTED:
                self._is_known = True
                return reply
            error = error_of(reply.status, reply.read(), reply.headers.get("Retry-After", ""))
            reply.release_conn()
        except urllib3.exceptions.HTTPError as failure:
            raise self._no_reply(failure) from failure
        if error.code != UNAUTHORIZED:
            self._is_known |= error.code < _SERVER_ERROR
        elif isinstance(error, UnavailableError) and not self._is_known:
            now = self._clock()
            self._refused_at = now if self._refused_at is None else self._refused_at
            error.refused_seconds = now - self._refused_at
        if self._explain:
            self._explain(error, was_accepted=self._is_known)
        raise error

    def lines(self, reply: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the lines of a reply as they arrive.

        Raises:
            NoReplyError: The connection failed.
        """
        unfinished = b""
        try:
            for piece in reply.stream(1 << 16, decode_content=True):
                *lines, unfinished = (unfinished + piece).split(b"\n")
                yield from (line for line in lines if line)
        except urllib3.exceptions.HTTPError as error:
            raise self._no_reply(error) from error
        if unfinished:
            yield unfinished

    def _no_reply(self, error: urllib3.exceptions.HTTPError) -> NoReplyError:
        no_reply = NoReplyError(urlsplit(self.cluster.endpoint).netloc, type(error).__name__, _cause(error))
        if self._explain:
            self._explain(no_reply, was_accepted=self._is_known)
        return no_reply


def _tls_context(authority: str) -> ssl.SSLContext:
    """Return a context that verifies the chain to a cluster's authority, the host name and the dates.

    Since Python 3.13, the default is also that OpenSSL refuses an authority without key identifiers
    (https://docs.python.org/3/library/ssl.html#ssl.create_default_context). Those of some clusters have none
    (https://github.com/kubernetes-client/python/issues/2394, https://github.com/awslabs/mcp/issues/3791).
    """
    context = ssl.create_default_context(cadata=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _cause(error: urllib3.exceptions.HTTPError) -> str:
    """Return the cause of a network error, without the addresses of objects that urllib3's own texts have."""
    reason = error.__cause__ or error.__context__
    system = (reason.strerror or "").lower() if isinstance(reason, OSError) else ""
    match error, reason:
        case urllib3.exceptions.NameResolutionError(), _:
            cause = "DNS does not resolve its name"
        case urllib3.exceptions.SSLError(), ssl.SSLCertVerificationError():
            cause = f"TLS error: certificate verify failed: {reason.verify_message}"
        case urllib3.exceptions.SSLError(), ssl.SSLError():
            cause = f"TLS error: {(reason.reason or 'unknown').replace('_', ' ').lower()}"
        case urllib3.exceptions.ReadTimeoutError(), _:
            cause = "TLS handshake timed out" if "handshake" in str(reason) else "timed out while waiting for the reply"
        case urllib3.exceptions.ConnectTimeoutError(), _:  # also a connection that was refused, or without a route
            cause = system or "connection timed out"
        case urllib3.exceptions.ProtocolError(), _:
            cause = system or "connection closed before the end of the reply"
        case _:
            cause = type(error).__name__
    return cause
