"""Connected hosts: hosts that start their own ranks report to the first host before that, and when they fail.

torchrun waits for other hosts, but does not name those that are missing, and hosts whose ranks wait in a collective do
not notice that another host has failed. So each host connects to the first one (the port after torchrun's own):

1. It reports its name and its number of ranks. When all hosts have, the first one lets them start; after a timeout, all
   of them fail with the names of the missing hosts.
2. The connection stays open. A host that ends reports its exit status and reason; the others end, too, if it failed.

A message is one line of JSON. Nothing in it is executed, and SageMaker lets only hosts of the same job connect.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from training_container import outside_json
from training_container.contract.stopping import STOPPED_STATUS
from training_container.contract.training_job import TrainingJob
from training_container.launcher.hosts import HostError

_POLL_SECONDS = 0.5
_MESSAGE_BYTES = 64 * 1024


@dataclass(kw_only=True)
class ConnectedHosts:
    """The connections of this host: to all other hosts on the first one, and to the first one on the others.

    Attributes:
        connections: The connections, by host.
        failure: The reason of another host that failed; empty while none has.
    """

    connections: Mapping[str, socket.socket] = field(default_factory=dict)
    failure: str = ""
    _reported_at: float = 0.0

    def watch(self, end: Callable[[], None], heard: Callable[[], None]) -> None:
        """Call `end` in a thread when another host fails, or its connection is lost, and `heard` when it has output."""
        for host, connection in self.connections.items():
            follow = threading.Thread(target=self._follow, args=(host, connection, end, heard), name=host, daemon=True)
            follow.start()

    def report_output(self) -> None:
        """Report to the first host that the ranks of this one have printed something, at most once per second."""
        if time.monotonic() < self._reported_at + 1.0:
            return
        self._reported_at = time.monotonic()
        for connection in self.connections.values():
            with suppress(OSError):
                _send(connection, output=True)

    def report(self, status: int, reason: str) -> None:
        """Report the end of this host's ranks to the connected hosts; one that has already ended is ignored."""
        for connection in self.connections.values():
            try:
                _send(connection, status=status, reason=reason)
                connection.close()
            except OSError:
                continue

    def _follow(self, host: str, connection: socket.socket, end: Callable[[], None], heard: Callable[[], None]) -> None:
        reason = f"Host {host} ended without a report: its container was stopped, or it lost its network.\n"
        while (message := _next_message(connection, None)) is not None and message.get("output"):
            heard()
        if message is not None:
            if message.get("status") in (0, STOPPED_STATUS):
                return
            reason = str(message.get("reason") or f"Host {host} failed.\n")
        if not self.failure:
            self.failure = reason
            end()


def connect(job: TrainingJob, port: int, stop: Callable[[], bool]) -> ConnectedHosts:
    """Wait until all hosts are ready to start their ranks.

    Args:
        port: The port of the first host.
        stop: Returns True if the training was asked to stop, which ends the wait.

    Raises:
        HostError: A host is missing after the timeout, has another number of ranks, or cannot be reached.
    """
    deadline = time.monotonic() + job.launch.host_timeout_seconds
    if not job.is_main_host:
        hello = {"host": job.current_host, "processes": job.launch.processes_per_host}
        return ConnectedHosts(connections={job.main_host: _join(job.main_host, port, hello, stop, deadline)})
    reported = _gather_hosts(job.hosts[1:], port, stop, deadline)
    reason = "" if stop() else _reason_not_to_start(job, {host: processes for host, (_, processes) in reported.items()})
    for connection, _ in reported.values():
        _send(connection, start=not reason, reason=reason)
    if reason:
        raise HostError(reason)
    return ConnectedHosts(connections={host: connection for host, (connection, _) in reported.items()})


def _reason_not_to_start(job: TrainingJob, ranks_by_host: Mapping[str, int]) -> str:
    """Return why no rank may start, given the number of ranks of each other host that has reported."""
    if missing := [host for host in job.hosts[1:] if host not in ranks_by_host]:
        hosts = f"Host{'s' * (len(missing) > 1)} {', '.join(missing)}"
        seconds = job.launch.host_timeout_seconds
        return f"{hosts} did not report to {job.current_host} within {seconds} s, so no rank was started."
    own_ranks = job.launch.processes_per_host
    if different := next((host for host, processes in ranks_by_host.items() if processes != own_ranks), None):
        return (
            f"Host {different} starts {ranks_by_host[different]} rank(s), but {job.current_host} starts {own_ranks}. "
            "All hosts must start "
            "the same number."
        )
    return ""


def _gather_hosts(
    hosts: tuple[str, ...], port: int, stop: Callable[[], bool], deadline: float
) -> dict[str, tuple[socket.socket, int]]:
    """Return the connection and the number of ranks of each host that has reported before the deadline."""
    reported: dict[str, tuple[socket.socket, int]] = {}
    try:
        server = socket.create_server(("", port), reuse_port=False)
    except OSError as error:
        raise HostError(
            f"Port {port}, on which hosts report, cannot be opened: {error}. Set env.MASTER_PORT."
        ) from error
    with server:
        server.settimeout(_POLL_SECONDS)
        while len(reported) < len(hosts) and time.monotonic() < deadline and not stop():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            hello = _next_message(connection, 10.0) or {}
            if hello.get("host") in hosts:
                reported[str(hello["host"])] = (connection, int(hello.get("processes", 0)))
    return reported


def _join(
    first: str, port: int, hello: Mapping[str, object], stop: Callable[[], bool], deadline: float
) -> socket.socket:
    """Report to the first host, and return the connection when it lets this host start."""
    error: OSError | None = None
    while time.monotonic() < deadline and not stop():
        try:
            connection = socket.create_connection((first, port), timeout=_POLL_SECONDS)
            _send(connection, **hello)
        except OSError as failed:  # its name is not resolvable yet, or it does not listen yet
            error = failed
            time.sleep(_POLL_SECONDS)
            continue
        # The first host waits until the same deadline, give or take the difference of their starts.
        reply = _next_message(connection, max(1.0, deadline - time.monotonic()) + 60.0)
        if reply is None:
            raise HostError(f"Host {first} ended before it let this host start its ranks. Its log has the reason.")
        if not reply.get("start"):
            raise HostError(str(reply.get("reason")))
        connection.settimeout(None)
        return connection
    raise HostError(f"Host {first} cannot be reached on port {port}: {error or 'the training was asked to stop'}.")


def _send(connection: socket.socket, **message: object) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _next_message(connection: socket.socket, timeout: float | None) -> dict[str, Any] | None:
    """Return the next message of a connection; None if it was closed, or no valid message has come in time."""
    connection.settimeout(timeout)
    line = b""
    try:
        while not line.endswith(b"\n") and len(line) < _MESSAGE_BYTES:
            piece = connection.recv(1)
            if not piece:
                return None
            line += piece
        message = outside_json.loads(line)
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None
