"""moto's application: its dispatcher and its request handler, as a server of `local_cloud` needs them."""

import socket
import threading
from functools import cache
from typing import Any, ClassVar

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler
from werkzeug.serving import BaseWSGIServer


class Dispatcher(DomainDispatcherApplication):
    """moto's dispatcher with a cache; moto searches the folders of all services for each request, under its lock."""

    @cache  # noqa: B019 - the cache exists as long as the server
    def get_backend_for_host(self, host: str | None) -> Any:
        """Return the service of a host name."""
        return super().get_backend_for_host(host)


class RequestHandler(MotoRequestHandler):
    """moto's handler without an access log; its connections end with the server."""

    disable_nagle_algorithm = True  # header and body are two writes; with Nagle, each response waits 40 ms for an ACK
    _open: ClassVar[dict[BaseWSGIServer, set[socket.socket]]] = {}
    _lock = threading.Lock()

    def setup(self) -> None:
        """Register the connection."""
        super().setup()
        with self._lock:
            self._open.setdefault(self.server, set()).add(self.connection)

    def finish(self) -> None:
        """Forget the connection."""
        with self._lock:
            self._open.get(self.server, set()).discard(self.connection)
        super().finish()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing: the record has more details, and many GETs would hide important lines."""

    @classmethod
    def close_connections(cls, server: BaseWSGIServer) -> None:
        """Close kept-alive connections, whose threads would continue to answer from the old state."""
        with cls._lock:
            for connection in cls._open.pop(server, set()):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client has already closed it
                    continue
