"""EventBridge: events reach rules, and rules reach targets, without anybody waiting for it."""

import queue
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


class Router:
    """Takes events in and delivers them from threads of its own."""

    def __init__(self, cloud: "LocalCloud") -> None:
        self._cloud = cloud
        self._events: queue.Queue[tuple[str, str, dict[str, Any]] | None] = queue.Queue()
        self._threads: list[threading.Thread] = []

    def put(self, region: str, bus: str, event: dict[str, Any]) -> None:
        """Take one event for a bus of a Region."""
        self._events.put((region, bus, event))

    def start(self) -> None:
        """Begin delivering."""

    def stop(self) -> None:
        """Stop delivering."""
