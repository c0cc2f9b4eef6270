"""Proxy: a reverse proxy in front of the page, which signs users in and names them in a header of each request."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from traingrid.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

USER_HEADER = "x-amzn-oidc-identity"
"""The header in which an Application Load Balancer names the user
(https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html)."""
LONGEST_NAME = 256
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A reverse proxy, and how its requests are recognised.

    Attributes:
        url: The address that users open, without a path: its scheme, host and port.
        networks: The addresses of the proxy. A program that can connect from them can be any user.
        user_header: The header with the name of the user, in lower case.
    """

    url: str
    networks: tuple[Network, ...]
    user_header: str = USER_HEADER

    @classmethod
    def of(cls, url: str, networks: Iterable[str], user_header: str = USER_HEADER) -> Proxy:
        """Return a proxy with these settings.

        Raises:
            UsageError: The address is not one of HTTPS, a network is not valid, or there is none.
        """
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.netloc or parts.username or parts.path.strip("/") or parts.query:
            step = "Write the address that users open, such as https://grid.example.com."
            raise UsageError(f"The address {url!r} has not the form https://HOST.", step)
        try:
            addresses = tuple(ipaddress.ip_network(network) for network in networks)
        except ValueError as error:
            raise UsageError(f"A network of the proxy is not valid: {error}.", "Write it as 10.0.4.0/24.") from error
        if not addresses:
            raise UsageError("The addresses of the proxy are missing.", "Give its subnets with --proxy 10.0.4.0/24.")
        return cls(url=f"https://{parts.netloc.lower()}", networks=addresses, user_header=user_header.lower())

    @property
    def host(self) -> str:
        """The value of the header Host."""
        return self.url.removeprefix("https://")

    def is_from_it(self, client: tuple[str, int] | None) -> bool:
        """Return True if a connection comes from the proxy.

        Args:
            client: The address and the port of the other end of the connection.
        """
        if client is None:
            return False
        address = ipaddress.ip_address(client[0])
        return any(address in network for network in self.networks)


def name_in(header: str) -> str:
    """Return the name in a header, which a server reads as Latin-1 and a proxy may have written as UTF-8."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


def is_name(user: str) -> bool:
    """Return True if a header's value can be the name of a user: not empty, not too long, and printable."""
    return 0 < len(user) <= LONGEST_NAME and user.isprintable()
