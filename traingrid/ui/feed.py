"""Feed: the state of the page, and its changes as server-sent events for any number of browsers.

Each event has an id. A browser that connects again sends the id of the last event that it received, and gets the events
that it missed, or the whole state if they are no longer kept
(https://html.spec.whatwg.org/multipage/server-sent-events.html).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from traingrid.ui.rows import Row

_KEPT_CHANGES = 200
_KEPT_ROWS = 20_000
_ALIVE_SECONDS = 15.0
"""An event stream without events sends a comment this often, so that a closed connection is noticed."""


@dataclass(eq=False)
class _Listener:
    """A browser that waits for events."""

    loop: asyncio.AbstractEventLoop
    event: asyncio.Event
    is_closed: bool = False


class Feed:
    """The rows and the head of the page: everything else that it shows. Threads may publish while others read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._written: dict[str, str] = {}
        self._fields = "[]"
        self._snapshot = (0, "")
        self._head: dict[str, Any] = {}
        self._number = 0
        self._run = secrets.token_hex(4)
        self._changes: deque[tuple[int, int, str]] = deque()
        self._listeners: set[_Listener] = set()

    def row(self, key: str) -> Row | None:
        """Return the row of a job, or None if the page does not have it."""
        return self._rows.get(key)

    def publish(self, rows: Mapping[str, Row], header: Mapping[str, Any]) -> None:
        """Replace the state, and send the differences to all browsers.

        Args:
            rows: All rows, by the key of the job. Each has the same fields in the same order.
            header: Everything else.
        """
        with self._lock:
            previous_rows = self._rows
            changed = [key for key, row in rows.items() if (old := previous_rows.get(key)) is not row and old != row]
            removed = [key for key in previous_rows if key not in rows]
            if not changed and not removed and header == self._head:
                return
            for key in removed:
                del self._written[key]
            for key in changed:
                self._written[key] = f"{json.dumps(key)}:{json.dumps(list(rows[key].values()))}"
            if changed:
                self._fields = json.dumps(list(rows[changed[0]]))
            change = {"removed": json.dumps(removed)} if removed else {}
            change |= self._rows_of(changed) if changed else {}
            change |= {"head": json.dumps(header)} if header != self._head else {}
            self._rows, self._head, self._number = dict(rows), dict(header), self._number + 1
            self._keep(self._number, len(changed), _object(change))
        self._wake()

    def publish_head(self, **changes: object) -> None:
        """Replace some entries of the head; do nothing before the first `publish`, whose head has all entries."""
        with self._lock:
            if not self._number:
                return
            rows, header = self._rows, {**self._head, **changes}
        self.publish(rows, header)

    def state(self) -> str:
        """Return the whole state as JSON, with the id of its last event; only an empty id before the first state."""
        with self._lock:
            if not self._number:
                return '{"id":""}'
            return f'{{"id":"{self._id(self._number)}",{self._whole()[1:]}'

    def close(self) -> None:
        """End the streams of the connected browsers, which connect again if the server still answers."""
        for listener in tuple(self._listeners):
            listener.is_closed = True
        self._wake()

    async def stream(self, last: str = "") -> AsyncIterator[str]:
        """Yield events until `close`.

        Args:
            last: The id of the last event that the browser has received; empty if it has received none.
        """
        listener = _Listener(asyncio.get_running_loop(), asyncio.Event())
        self._listeners.add(listener)
        position = self._position(last)
        try:
            while not listener.is_closed:
                listener.event.clear()
                position, events = self._after(position)
                for event in events:
                    yield event
                try:
                    await asyncio.wait_for(listener.event.wait(), _ALIVE_SECONDS)
                except TimeoutError:
                    yield ": alive\n\n"
        finally:
            self._listeners.discard(listener)

    def _rows_of(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the entries of an event with these rows: the names of the values once, and the values of each row."""
        return {"fields": self._fields, "rows": "{" + ",".join(self._written[key] for key in keys) + "}"}

    def _keep(self, number: int, rows: int, change: str) -> None:
        self._changes.append((number, rows, change))
        while len(self._changes) > _KEPT_CHANGES or sum(count for _, count, _ in self._changes) > _KEPT_ROWS:
            self._changes.popleft()

    def _position(self, last: str) -> int | None:
        """Return the number in an event's id; None for an id of another run of the server, or none."""
        run, _, number = last.partition("-")
        return int(number) if run == self._run and number.isdecimal() and len(number) < 16 else None

    def _after(self, position: int | None) -> tuple[int | None, list[str]]:
        """Return the events after a position, and the new position."""
        with self._lock:
            if self._number in (0, position):  # not read yet, or nothing new
                return position, []
            first = self._changes[0][0] if self._changes else self._number + 1
            if position is None or not first <= position + 1 <= self._number:
                return self._number, [self._event(self._number, "snapshot", self._whole())]
            missed = [self._event(number, "change", data) for number, _, data in self._changes if number > position]
            return self._number, missed

    def _whole(self) -> str:
        """Return the whole state, which is written once for all browsers that connect before its next change."""
        if self._snapshot[0] != self._number:
            parts = {"head": json.dumps(self._head), **self._rows_of(self._rows)}
            self._snapshot = self._number, _object(parts)
        return self._snapshot[1]

    def _event(self, number: int, name: str, data: str) -> str:
        return f"id: {self._id(number)}\nevent: {name}\ndata: {data}\n\n"

    def _id(self, number: int) -> str:
        return f"{self._run}-{number}"

    def _wake(self) -> None:
        for listener in tuple(self._listeners):
            if not listener.loop.is_closed():
                listener.loop.call_soon_threadsafe(listener.event.set)


def _object(parts: Mapping[str, str]) -> str:
    """Return a JSON object of values that are written already."""
    return "{" + ",".join(f'"{name}":{value}' for name, value in parts.items()) + "}"
