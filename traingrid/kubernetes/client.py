"""Client: requests to the API server of a cluster.

Reads, patches and deletions are repeated a few times after errors that pass. A creation is sent exactly once, because
its reply may be lost: the caller looks the object up by its name. Only after 401 it is repeated, because the server did
nothing.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode, urlsplit

import urllib3

from traingrid.kubernetes.errors import (
    ALREADY_EXISTS,
    CONFLICT,
    NOT_FOUND,
    UNAUTHORIZED,
    ApiError,
    NoReplyError,
    UnavailableError,
    error_of,
)
from traingrid.late_request import raise_if_late
from traingrid.strict_json import json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traingrid.kubernetes.cluster import Cluster
    from traingrid.kubernetes.token import Tokens

logger = logging.getLogger(__name__)
Object = dict[str, Any]
"""An object of Kubernetes, as its JSON form."""
PAGE = 250
"""The objects of one chunk of a list; kube-controller-manager and kubectl use 500, and our objects are larger."""
MERGE_PATCH = "application/merge-patch+json"
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


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of namespaced objects.

    Attributes:
        version: Its `apiVersion`.
        plural: Its name in paths.
    """

    version: str
    kind: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of all objects of a namespace, or of one object."""
        root = "apis" if "/" in self.version else "api"
        return f"/{root}/{self.version}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


JOB = Kind(version="batch/v1", kind="Job", plural="jobs")
MPI_JOB = Kind(version="kubeflow.org/v2beta1", kind="MPIJob", plural="mpijobs")
POD = Kind(version="v1", kind="Pod", plural="pods")
SERVICE = Kind(version="v1", kind="Service", plural="services")
EVENT = Kind(version="v1", kind="Event", plural="events")


class Explain(Protocol):
    """Adds the cause and the next step to an error."""

    def __call__(self, error: ApiError, *, was_accepted: bool) -> None:
        """Change the text of an error.

        Args:
            was_accepted: True if the server has accepted a token of the client before.
        """


class Client:
    """A client of one namespace of a cluster; threads may share it.

    Args:
        tokens: The tokens of the role that the process has.
        sleep: Waits for a number of seconds.
        clock: Returns monotonic seconds.
        explain: Called with each error before it is raised.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # two are for tests
        self,
        cluster: Cluster,
        namespace: str,
        tokens: Tokens,
        limits: RequestLimits | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        *,
        explain: Explain | None = None,
    ) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._tokens, self._limits, self._sleep, self._clock = tokens, limits or RequestLimits(), sleep, clock
        self._explain = explain
        self._is_known = False
        self._refused_at: float | None = None
        self._http = urllib3.PoolManager(
            maxsize=_CONNECTIONS, retries=False, ssl_context=_tls_context(cluster.authority)
        )

    def get(self, kind: Kind, name: str) -> Object:
        """Return an object.

        Raises:
            ApiError: The object does not exist, or the request was refused.
        """
        return self._json("GET", kind.path(self.namespace, name))

    def find(self, kind: Kind, name: str) -> Object | None:
        """Return an object; None if it does not exist, or the cluster does not have its kind."""
        try:
            return self.get(kind, name)
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def create(self, kind: Kind, new: Object) -> Object:
        """Create an object by exactly one request.

        Raises:
            UnavailableError: The object may have been created, because the reply was lost or is an error of the server.
            ApiError: The request was refused.
            LateRequestError: It was not sent (`traingrid.late_request`).
        """
        content = json.dumps(new).encode()
        return self._json("POST", kind.path(self.namespace), {"fieldValidation": "Strict"}, content, tries=1)

    def ensure(self, kind: Kind, new: Object) -> None:
        """Create an object unless one has its name, with as many requests as a read may take.

        Raises:
            ApiError: The request was refused, or the server did not answer.
        """
        content, left = json.dumps(new).encode(), self._limits.tries
        while True:
            try:
                self._json("POST", kind.path(self.namespace), {"fieldValidation": "Strict"}, content)
            except ApiError as error:
                left -= 1
                if error.code == CONFLICT and error.reason == ALREADY_EXISTS:
                    return
                if error.code != CONFLICT or left <= 0:
                    raise
                self._sleep(1.0)
            else:
                return

    def pages(self, kind: Kind, labels: str = "", fields: str = "") -> Iterator[tuple[list[Object], str]]:
        """Yield the chunks of a list, each with the resource version of the whole list.

        Args:
            labels: The label selector.
            fields: The field selector.

        Raises:
            ApiError: The request was refused; 410 if the continuation has expired before the end.
        """
        selected = {"labelSelector": labels, "fieldSelector": fields, "limit": str(PAGE)}
        query = {name: value for name, value in selected.items() if value}
        while True:
            page = self._json("GET", kind.path(self.namespace), query)
            metadata = page.get("metadata") or {}
            yield page.get("items") or [], metadata.get("resourceVersion", "")
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def all(self, kind: Kind, labels: str = "", fields: str = "") -> Iterator[Object]:
        """Yield all objects that the selectors select; see `pages`."""
        for page, _ in self.pages(kind, labels, fields):
            yield from page

    def patch(self, kind: Kind, name: str, patch: Object) -> Object:
        """Apply a JSON merge patch to an object, and return it."""
        content = json.dumps(patch).encode()
        return self._json("PATCH", kind.path(self.namespace, name), None, content, MERGE_PATCH)

    def delete(self, kind: Kind, name: str, *, uid: str = "", propagation: str = "Background") -> bool:
        """Delete an object; its finalizers may keep it.

        Args:
            uid: Delete only the object with this uid.
            propagation: What happens to the objects that it owns: Foreground, Background or Orphan.

        Returns:
            False if it did not exist.
        """
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        options |= {"preconditions": {"uid": uid}} if uid else {}
        try:
            self._json("DELETE", kind.path(self.namespace, name), None, json.dumps(options).encode())
        except ApiError as error:
            if error.code == NOT_FOUND:
                return False
            raise
        return True

    def watch(
        self, kind: Kind, version: str, labels: str = "", fields: str = "", seconds: int = 300
    ) -> Iterator[Object]:
        """Yield the changes after a resource version, until the server ends the watch.

        Args:
            version: The resource version of a list, or of the last change.
            labels: The label selector.
            fields: The field selector.
            seconds: The time after which the server ends the watch.

        Raises:
            ApiError: The request was refused; 410 if the version is too old, after which the caller lists again.
        """
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        query |= {"allowWatchBookmarks": "true"} | ({"labelSelector": labels} if labels else {})
        query |= {"fieldSelector": fields} if fields else {}
        timeout = urllib3.Timeout(connect=self._limits.connect, read=seconds + self._limits.read)
        with closing(self._reply("GET", kind.path(self.namespace), query, tries=1, timeout=timeout)) as reply:
            for line in self._lines(reply):
                event = json_object(line, f"A change of {kind.plural}")
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise error_of(int(status.get("code") or 0), status)
                yield event

    def log(self, pod: str, container: str, since: str = "", tail: int | None = None) -> Iterator[str]:
        """Yield the lines of a container's log, each with its time in front.

        Args:
            since: The time, in RFC 3339, from which lines are read.
            tail: Only the last lines, as many as this.

        Raises:
            ApiError: The request was refused; 400 if the container has not started yet.
        """
        query = {"container": container, "timestamps": "true"} | ({"sinceTime": since} if since else {})
        query |= {"tailLines": str(tail)} if tail is not None else {}
        with closing(self._reply("GET", f"{POD.path(self.namespace, pod)}/log", query)) as reply:
            for line in self._lines(reply):
                yield line.decode(errors="replace")

    def _json(  # noqa: PLR0913, PLR0917  # the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        media: str = "application/json",
        tries: int | None = None,
    ) -> Object:
        reply = self._reply(method, path, query, content, media, tries)
        try:
            return json_object(reply.read(), f"The reply of {self.cluster.endpoint}{path}")
        except urllib3.exceptions.HTTPError as error:
            raise self._no_reply(error) from error
        finally:
            reply.release_conn()

    def _reply(  # noqa: PLR0913, PLR0917  # the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        media: str = "application/json",
        tries: int | None = None,
        timeout: urllib3.Timeout | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request until it is answered, at most `tries` times, and return a reply that is no error.

        An expired token costs no try. After further replies with 401, any request is repeated as often as a read.
        """
        url = f"{self.cluster.endpoint}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout = timeout or urllib3.Timeout(connect=self._limits.connect, read=self._limits.read)
        left, refused = tries or self._limits.tries, 0
        while True:
            token = self._tokens.current()
            if method == "POST" and tries == 1:  # `create`; the token was signed before
                raise_if_late()
            logger.debug("Kubernetes call: %s %s", method, path)
            try:
                return self._send_once(method, url, content, media, token, timeout)
            except UnavailableError as error:
                if error.code == UNAUTHORIZED:
                    self._tokens.discard(token)
                    refused += 1
                    if refused == 1:
                        continue
                else:
                    left -= 1
                if left <= 0 or refused > self._limits.tries:
                    raise
                self._sleep(min(error.retry_after or 1.0, _MAX_WAIT))

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

    def _lines(self, reply: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
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
