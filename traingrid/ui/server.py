"""Server: the web application of the page, on a port of 127.0.0.1."""

from __future__ import annotations

import logging
import mimetypes
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from traingrid.aws.clients import renew
from traingrid.errors import TraingridError, UsageError
from traingrid.ui import actions
from traingrid.ui.access import EXPIRED, RENEW, lacks_credentials
from traingrid.ui.curves import Curves
from traingrid.ui.feed import Feed
from traingrid.ui.guard import HEALTH, ProxyGuard, Secrets, SessionGuard
from traingrid.ui.hyperparameters import hyperparameters
from traingrid.ui.job_page import job_page, log_tail
from traingrid.ui.poller import Poller
from traingrid.ui.rounds import PageRounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from traingrid.api.control_plane import ControlPlane
    from traingrid.catalog.campaign_facts import CampaignFacts
    from traingrid.ui.proxy import Proxy

logger = logging.getLogger(__name__)
STATIC = Path(__file__).parent / "static"
_LOG_LINES = 200
_LARGEST_BODY = 10_000
Body = TypeVar("Body", bound=BaseModel)


@dataclass(kw_only=True)
class Page:
    """The page of a grid.

    Attributes:
        grid_file: The path of grid.yaml, for commands that the page shows.
        writes: True if the page may cancel and retry jobs.
        read_facts: Reads the catalog; returns None if the grid has none.
        proxy: The reverse proxy that signs users in; None if the user of this machine opens the printed address.
        files: The files of the page, by their paths.
    """

    plane: ControlPlane
    grid_file: Path
    writes: bool = False
    read_facts: Callable[[], CampaignFacts | None] = lambda: None
    proxy: Proxy | None = None
    secrets: Secrets = field(default_factory=Secrets)
    feed: Feed = field(default_factory=Feed)
    poller: Poller = field(init=False)
    curves: Curves = field(init=False)
    rounds: PageRounds = field(init=False)
    files: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.poller = Poller(
            self.plane, self.feed, writes=self.writes, read_facts=self.read_facts, renew=self.renew_credentials
        )
        self.curves = Curves(self.plane)
        self.rounds = PageRounds(self.plane, self.feed, self.grid_file)
        paths = (path for path in STATIC.rglob("*") if path.is_file())
        self.files = {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in paths}

    def renew_credentials(self) -> None:
        """Make all clients again, which read the credentials that the user may have renewed meanwhile."""
        renew()
        self.plane = type(self.plane).with_clients(self.plane.deployment)
        self.curves.use(self.plane)
        self.rounds.use(self.plane)
        self.poller.use(self.plane)

    def serve(self, listening: socket.socket) -> None:
        """Answer requests until the process is interrupted.

        Args:
            listening: A socket that is bound to a port of 127.0.0.1.
        """
        self.poller.start()
        try:
            self.server(listening).run(sockets=[listening])
        finally:
            self.poller.stop()

    def server(self, listening: socket.socket) -> uvicorn.Server:
        """Return the server, which does not run yet."""
        app = self.app(listening.getsockname()[1])
        quiet: dict[str, Any] = {
            "log_config": None,
            "log_level": "critical",
            "access_log": False,
            "server_header": False,
            # Otherwise a header could replace the address of a connection from this machine.
            "proxy_headers": False,
        }
        return _Server(self.feed, uvicorn.Config(app, lifespan="off", ws="none", timeout_graceful_shutdown=2, **quiet))

    def app(self, port: int) -> Starlette:
        """Return the application for a port. Without `writes` it has no route that changes anything."""
        routes = [
            Route("/", self._index),
            Route("/api/state", self._state),
            Route("/api/events", self._events),
            Route("/api/curves", self._curves),
            Route("/api/hyperparameters", self._hyperparameters),
            Route("/api/rounds/{name}", self._rounds),
            Route("/api/jobs/{submission}/{index:int}", self._job),
            Route("/api/jobs/{submission}/{index:int}/log", self._log),
        ]
        if self.writes:
            routes += [
                Route("/api/cancel", self._cancel, methods=["POST"]),
                Route("/api/retry", self._retry, methods=["POST"]),
            ]
        handlers: dict[Any, Any] = {
            UsageError: _refused,
            TraingridError: _failed,
            ClientError: _failed,
            BotoCoreError: _failed,
        }
        if self.proxy:
            routes.append(Route(HEALTH, _health))
            guard = Middleware(ProxyGuard, proxy=self.proxy)
        else:
            guard = Middleware(SessionGuard, port=port, page_secrets=self.secrets)
        boundary = Middleware(_Boundary)
        return Starlette(
            routes=[*routes, Route("/static/{path:path}", self._static)],
            middleware=[guard, boundary],
            exception_handlers=handlers,
        )

    async def _index(self, _: Request) -> Response:
        return HTMLResponse(self.files["index.html"])

    async def _static(self, request: Request) -> Response:
        """Return a file of the page; they are kept in memory, so that a page loads without waiting for threads."""
        path = request.path_params["path"]
        if path not in self.files:
            return PlainTextResponse("There is no such file.\n", status_code=404)
        return Response(self.files[path], media_type=mimetypes.guess_type(path)[0])

    async def _state(self, _: Request) -> Response:
        return Response(self.feed.state(), media_type="application/json")

    async def _events(self, request: Request) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("last", "")
        stream = self.feed.stream(last)
        # nginx collects the answers of a server unless this header is set.
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _job(self, request: Request) -> Response:
        submission, index = request.path_params["submission"], request.path_params["index"]
        return JSONResponse(await run_in_threadpool(job_page, self.plane, self.grid_file, submission, index))

    async def _log(self, request: Request) -> Response:
        submission, index = request.path_params["submission"], request.path_params["index"]
        lines, region, error = await run_in_threadpool(log_tail, self.plane, submission, index, _LOG_LINES)
        if region:
            self.poller.note_region(region, error)
        return JSONResponse({"lines": lines, "error": error})

    async def _curves(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self.curves.read, request.query_params.getlist("job")))

    async def _hyperparameters(self, request: Request) -> Response:
        submissions = request.query_params.getlist("submission")
        return JSONResponse(await run_in_threadpool(hyperparameters, self.plane, submissions))

    async def _rounds(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self.rounds.read, request.path_params["name"]))

    async def _cancel(self, request: Request) -> Response:
        return await self._act(request, actions.CancelRequest, actions.cancel)

    async def _retry(self, request: Request) -> Response:
        return await self._act(request, actions.RetryRequest, actions.retry)

    def _person(self, request: Request) -> str:
        """Return who makes a request: the AWS identity of this process, and the user whom the proxy has signed in."""
        user, caller = getattr(request.state, "user", ""), self.plane.caller()
        return f"{user} through {caller}" if user else caller

    async def _act(
        self, request: Request, model: type[Body], act: Callable[[ControlPlane, Body, str], dict[str, Any]]
    ) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LARGEST_BODY:
                raise UsageError("The request is too large.")
        try:
            action = model.model_validate_json(body)
        except ValidationError as error:
            raise UsageError(f"The request is invalid: {error.errors()[0]['msg']}.") from error
        by = await run_in_threadpool(self._person, request)
        done = await run_in_threadpool(act, self.plane, action, by)
        self.poller.wake()
        return JSONResponse(done)


class _Boundary:
    """ASGI middleware that answers a request with a sentence if the application has an error."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            logger.debug("a request failed", exc_info=True)
            text = f"Unexpected {type(error).__name__}: {error}"
            answer = JSONResponse({"error": text, "next_step": ""}, status_code=500)
            with suppress(RuntimeError):  # part of the answer has been sent
                await answer(scope, receive, send)


class _Server(uvicorn.Server):
    """A server that ends the event streams of browsers when it stops, which would otherwise delay it."""

    def __init__(self, feed: Feed, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._feed = feed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server."""
        self._feed.close()
        await super().shutdown(sockets)


def listening_socket(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a socket on a port; on one of 127.0.0.1, which other machines cannot reach, unless another host is given.

    Args:
        port: The port; 0 for any free port.
        host: An IPv4 address of this machine, or 0.0.0.0 for all of them.

    Raises:
        UsageError: The port is in use, or may not be used.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        text = f"Port {port} of {host} cannot be used: {error.strerror or error}."
        raise UsageError(text, "Give another --port, or an IPv4 address of this machine.") from error
    listener.listen()
    return listener


async def _health(_: Request) -> Response:
    return PlainTextResponse("The server answers.\n")


async def _refused(_: Request, error: Exception) -> Response:
    return _problem(error, 400)


async def _failed(_: Request, error: Exception) -> Response:
    return _problem(error, 502)


def _problem(error: Exception, status: int) -> Response:
    if isinstance(error, TraingridError):
        return JSONResponse({"error": error.what, "next_step": error.next_step}, status_code=status)
    if lacks_credentials(error):
        return JSONResponse({"error": EXPIRED, "next_step": RENEW}, status_code=status)
    return JSONResponse({"error": f"AWS request failed: {error}", "next_step": ""}, status_code=status)
