"""Confines a process to this machine. Standard library only: a Lambda function's process loads this file by path."""

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TARGET_OF = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
}
"""Audit events of network access, and the index of the argument with the target (Python, "Audit events table")."""


def refuse_other_machines(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook (`sys.addaudithook`) that allows only loopback addresses and Unix sockets.

    Args:
        event: Name of the audit event.
        arguments: The event's arguments.

    Raises:
        PermissionError: If the call would reach another machine.
    """
    if event not in _TARGET_OF:
        return
    target = arguments[_TARGET_OF[event]]
    host = target[0] if isinstance(target, tuple) else target
    if not is_local(host):
        message = f"localcloud refuses connections to other machines; this process tried to reach {host!r}"
        raise PermissionError(message)


def is_local(host: object) -> bool:
    """Return True if a socket address is on this machine (loopback, or the path of a Unix socket)."""
    if host is None:
        return True
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name in ("", "localhost") or name.endswith(".localhost") or name.startswith(("/", "\0")):
        return True
    try:
        return ipaddress.ip_address(name.split("%")[0]).is_loopback
    except ValueError:
        return False


_guards = 0
_hooked = False


@contextmanager
def loopback_only() -> Iterator[None]:
    """Refuse every connection of this process to another machine while the block runs.

    An audit hook cannot be removed (PEP 578), so it is added once and checks a counter.
    """
    global _guards, _hooked  # noqa: PLW0603 - the hook belongs to the process, not to one server
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    _guards += 1
    try:
        yield
    finally:
        _guards -= 1


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _guards:
        refuse_other_machines(event, arguments)
