"""Guard: refuses requests that do not come from this user's page, and adds security headers to all responses.

A page of another site can send requests to 127.0.0.1, also under a host name of its site (DNS rebinding). The Host
header prevents the second, the cookie (SameSite=Strict) and the Origin header the first. Browsers send cookies of
127.0.0.1 to servers on all of its ports, so the cookie allows to read only; a change requires the token, which the page
keeps (https://www.rfc-editor.org/rfc/rfc6265#section-8.5).
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from traingrid.ui.proxy import Proxy, is_name, name_in

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TOKEN_HEADER = "x-traingrid-token"  # noqa: S105  # the name of a header
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_READING = ("GET", "HEAD")
HEALTH = "/health"
"""The path that a load balancer reads to see if the server answers."""


@dataclass(frozen=True)
class Secrets:
    """The secrets of one run of the server.

    Attributes:
        token: In the printed address, and in the header of each change.
        session: In the cookie.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class Guard(ABC):
    """ASGI middleware that answers the requests of the page, and refuses all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the application."""
        if scope["type"] != "http":  # the page uses no WebSockets, and the server has no start or end
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        app = PlainTextResponse(f"{refusal}\n", status_code=403) if refusal else self._app
        cookie = "" if refusal else self._new_cookie(headers)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added.update(_HEADERS)
                if cookie:
                    added.append("set-cookie", cookie)
            await send(message)

        await app(scope, receive, with_headers)

    @abstractmethod
    def _refusal(self, scope: Scope, headers: Headers) -> str:
        """Return the reason to refuse a request; empty if it is accepted."""

    def _new_cookie(self, _: Headers) -> str:
        """Return the cookie that an accepted request gets; empty if it needs none."""
        return ""


class SessionGuard(Guard):
    """Accepts the requests of the browser that has opened the printed address.

    Args:
        port: The port on which the server listens.
    """

    def __init__(self, app: ASGIApp, port: int, page_secrets: Secrets) -> None:
        super().__init__(app)
        self._known = page_secrets
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._cookie = f"traingrid-{port}"

    def _new_cookie(self, headers: Headers) -> str:
        if self._has_session(headers):
            return ""
        return f"{self._cookie}={self._known.session}; Path=/; HttpOnly; SameSite=Strict"

    def _refusal(self, scope: Scope, headers: Headers) -> str:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "This server answers only requests for 127.0.0.1 and localhost."
        if refusal := _foreign(scope, headers, self._origins):
            return refusal
        is_allowed = self._has_session(headers)
        if scope["method"] in _READING:
            is_allowed = is_allowed or self._opens(scope)
        else:
            is_allowed = is_allowed and _same(headers.get(TOKEN_HEADER, ""), self._known.token)
        return "" if is_allowed else "Open the address that `traingrid ui` has printed, with its token."

    def _opens(self, scope: Scope) -> bool:
        """Return True for the printed address."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return scope["path"] == "/" and _same(query.get("token", [""])[0], self._known.token)

    def _has_session(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self._known.session)


class ProxyGuard(Guard):
    """Accepts the requests of a reverse proxy for users that it has signed in, and its checks of the server's health.

    It depends on the address of the connection: other hosts can send the same headers.
    """

    def __init__(self, app: ASGIApp, proxy: Proxy) -> None:
        super().__init__(app)
        self._proxy = proxy

    def _refusal(self, scope: Scope, headers: Headers) -> str:
        if not self._proxy.is_from_it(scope["client"]):
            return "This server answers only its reverse proxy."
        if scope["path"] == HEALTH:
            return ""
        if headers.getlist("host") != [self._proxy.host]:
            return f"This server answers only requests for {self._proxy.host}."
        if not _opens_the_page(scope, headers) and (refusal := _foreign(scope, headers, {self._proxy.url})):
            return refusal
        users = headers.getlist(self._proxy.user_header)
        if len(users) != 1 or not is_name(user := name_in(users[0])):
            return f"The reverse proxy names no user in the header {self._proxy.user_header}."
        scope.setdefault("state", {})["user"] = user
        return ""


def _opens_the_page(scope: Scope, headers: Headers) -> bool:
    """Return True if a browser opens the page from a link of another site, or after the login on one."""
    is_document = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_document and scope["method"] == "GET" and scope["path"] == "/" and headers.get("origin") is None


def _foreign(scope: Scope, headers: Headers, origins: Collection[str]) -> str:
    """Return the reason to refuse a request of another site's page; empty if it comes from the page."""
    origin = headers.get("origin")
    if (origin is not None and origin not in origins) or headers.get("sec-fetch-site") == "cross-site":
        return "This server answers only requests of its page."
    return "A change requires the header Origin." if origin is None and scope["method"] not in _READING else ""


def _same(actual: str, expected: str) -> bool:
    return secrets.compare_digest(actual.encode(), expected.encode())
