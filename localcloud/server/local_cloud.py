"""The server: runs moto's application in this process, on 127.0.0.1 only."""

import importlib
import os
import socket
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, cast
from unittest.mock import patch

from moto.moto_api._internal import moto_api_backends
from moto.moto_server import werkzeug_app
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from localcloud.credentials import environments
from localcloud.credentials.account import account
from localcloud.credentials.secret import RANDOM_SECRET, issued
from localcloud.eks.service import Eks
from localcloud.events.router import Router
from localcloud.faults.calls import FaultyCalls
from localcloud.faults.faults import Faults
from localcloud.iam.enforcement import Enforcer
from localcloud.lambda_.functions import Functions
from localcloud.limits.account_limits import AccountLimits
from localcloud.limits.throttle import Throttle, TokenBuckets
from localcloud.pricing.price_lists import PriceLists
from localcloud.processes.loopback import loopback_only
from localcloud.processes.process_group import Spawn, group_of
from localcloud.processes.program import Program
from localcloud.server.moto_application import Dispatcher, RequestHandler
from localcloud.server.request_filter import Page, RequestFilter
from localcloud.server.state_file import Running, locked, make_private, remove_state, write_state
from localcloud.settings import Settings
from localcloud.wire.record import Record, Recorder

HOST = "127.0.0.1"
_ONE_PER_PROCESS = threading.Lock()

FEATURES = (
    "localcloud.wire.callers",
    "localcloud.credentials.session_tokens",
    "localcloud.faults.faults",
    "localcloud.dynamodb",
    "localcloud.sns",
    "localcloud.log_keys",
    "localcloud.log_filter",
    "localcloud.cloudformation",
    "localcloud.s3.bucket_policies",
    "localcloud.s3.object_events",
    "localcloud.s3.checksums",
    "localcloud.s3.etags",
    "localcloud.s3.copies",
    "localcloud.s3.uploads",
    "localcloud.iam.simulation",
    "localcloud.iam.limits",
    "localcloud.ecr.registry",
    "localcloud.codebuild.backend",
    "localcloud.lambda_.functions",
    "localcloud.batch",
    "localcloud.sagemaker",
    "localcloud.refused_operations",
    "localcloud.sagemaker.file_systems",
    "localcloud.sagemaker.remote_debug",
    "localcloud.pricing",
    "localcloud.limits.quota_increases",
    "localcloud.limits.linked_roles",
    "localcloud.limits.service_quotas",
    "localcloud.limits.vpcs",
)
"""Modules with an `install(cloud)` that replaces or extends a part of moto, in the order of installation."""


class Feature(Protocol):
    """A module that replaces or extends a part of moto."""

    def install(self, cloud: "LocalCloud") -> None:
        """Replace or extend a part of moto with `cloud.replace`; runs at every start."""


class LocalCloud:
    """An AWS on this machine, with one account and any other account whose key a caller uses.

    State is in memory and ends with the server; `data_dir` keeps files.

    Only one server can run at a time in a process, because moto's state is global to the process; further servers can
    follow, each with empty state.

    Attributes:
        data_dir: Absolute path of the folder for work files, logs and the record.
        secret: The secret access key of its users.
        events: The EventBridge of this account.
        faults: The injected faults; none by default.
        limits: The quotas of its accounts; initially the quotas of the settings' profile.
        functions: Its Lambda, after the start.
        pages: Handlers of paths outside AWS's APIs, by path prefix.
        record: Every accepted mutating call; empty after each start.
        spawn: Function that starts a Batch container's program; replace it to start thousands faster.
    """

    def __init__(self, settings: Settings | None = None, secret: str = "") -> None:
        """Create a server.

        Args:
            secret: Secret access key of its users; a random one by default.
        """
        self.settings = settings or Settings()
        self.secret = secret or RANDOM_SECRET
        self.data_dir: Path = self.settings.data_dir.resolve()
        self.faults = Faults()
        self.limits = AccountLimits(self.settings.account_profile)
        self.events = Router(self)
        self.record = Record(self.data_dir / "record.jsonl")
        self.functions: Functions | None = None
        self.spawn: Spawn = Program
        self.pages: dict[str, Page] = {}
        self._stop_callbacks = ExitStack()
        self._resources = ExitStack()
        self._server: BaseWSGIServer | None = None

    @property
    def endpoint_url(self) -> str:
        """Return the address for `AWS_ENDPOINT_URL`; S3 uses path-style addresses, so no resolver is needed."""
        return f"http://{HOST}:{self.port}"

    @property
    def port(self) -> int:
        """Return the TCP port."""
        if self._server is None:
            message = "this localcloud is not running: call start() first"
            raise RuntimeError(message)
        return self._server.port

    def start(self) -> None:
        """Start serving in a thread of this process, with empty state.

        Raises:
            OSError: If the port is in use, or another server runs in the folder.
            RuntimeError: If a server already runs in this process.
        """
        if not _ONE_PER_PROCESS.acquire(blocking=False):
            message = "a localcloud already runs in this process: stop it first, or start this one in another process"
            raise RuntimeError(message)
        self._resources.callback(_ONE_PER_PROCESS.release)
        try:
            self._start()
        except BaseException:
            with self._resources:
                self._stop_callbacks.close()
            raise

    def _start(self) -> None:
        make_private(self.data_dir)
        (self.data_dir / "home").mkdir(exist_ok=True)
        self._resources.enter_context(locked(self.data_dir))
        self._resources.enter_context(issued(self.secret))
        self._resources.enter_context(environments.closed_environment(self.settings.account))
        self._resources.enter_context(loopback_only())
        moto_api_backends["global"].reset()
        self.limits = AccountLimits(self.settings.account_profile)
        self.replace(werkzeug_app, DISABLE_GLOBAL_CORS=True)  # otherwise every web page could read moto's responses
        self.record.begin()
        self._resources.callback(self.record.end)
        services = Eks(PriceLists(Dispatcher(create_backend_app)), self)
        application = Enforcer(Recorder(services, self.record))
        faulty = FaultyCalls(application, self.faults, group_of)
        limited = Throttle(faulty, TokenBuckets()) if self.settings.api_rates else faulty
        accepted = RequestFilter(limited, self.record, str(self.data_dir), self.pages)
        # Bound here, because werkzeug exits the whole process if the port is in use.
        listener = self._resources.enter_context(socket.create_server((HOST, self.settings.port)))
        self._server = make_server(
            HOST, 0, accepted, threaded=True, request_handler=RequestHandler, fd=listener.fileno()
        )
        self._resources.callback(setattr, self, "_server", None)
        self._resources.callback(self._server.server_close)
        self.events.start()
        self.on_stop(self.events.stop)
        for name in FEATURES:
            cast(Feature, importlib.import_module(name)).install(self)
        write_state(Running(os.getpid(), self.endpoint_url, str(self.data_dir), self.secret))
        self._resources.callback(remove_state, self.data_dir)
        self._serve(self._server)

    def _serve(self, server: BaseWSGIServer) -> None:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="localcloud", daemon=True
        )
        thread.start()
        # When it ends, the thread, too, closes the server's socket; the port can be open until it has.
        self._resources.callback(thread.join)
        self._resources.callback(RequestHandler.close_connections, server)
        self._resources.callback(server.shutdown)

    def stop(self) -> None:
        """Run every callback of `on_stop`, last registered first, and stop serving, even if callbacks fail.

        Raises:
            Exception: The error of the last callback that failed; the errors of others are its context.
        """
        if self._server is None:
            return
        with self._resources:
            self._stop_callbacks.close()

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Register a clean-up function for the stop; the server still answers while it runs."""
        self._stop_callbacks.callback(callback)

    def replace(self, owner: object, **attributes: Any) -> None:
        """Set attributes of a class, module or object of moto, and restore them when the server has stopped.

        moto's state is global to the process, in which other servers or moto's own mocks can follow.
        """
        self._resources.enter_context(patch.multiple(owner, create=True, **attributes))

    def extend(self, mapping: MutableMapping[str, Any], entries: Mapping[str, Any]) -> None:
        """Set entries of a mapping of moto, and restore it when the server has stopped."""
        self._resources.enter_context(patch.dict(mapping, entries))

    def environment_for(self, region: str, role_arn: str | None, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of a child process; see `environments.child_environment`."""
        return environments.child_environment(self.endpoint_url, self.data_dir / "home", region, role_arn, extra)

    def put_event(self, region: str, event: dict[str, Any], account_id: str = "") -> None:
        """Deliver an event of an AWS service to the default bus of a Region, without waiting for its targets.

        Args:
            account_id: Account of the bus; by default, the server's own.
            event: `source`, `detail-type` and `detail` (a dict); missing `resources`, `time` (a datetime's ISO form)
                and `id` are added, `account`, `region` and `version` are always set.
        """
        self.events.put(region, "default", event, account_id or account())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
