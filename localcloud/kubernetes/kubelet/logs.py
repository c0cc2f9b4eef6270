"""Logs: the output of the containers of pods, for the subresource `log`.

Sources: https://kubernetes.io/docs/concepts/cluster-administration/logging/ (rotation: a log that has reached 10 MiB
begins anew, and `kubectl logs` shows only the newest file), and pkg/registry/core/pod/strategy.go of Kubernetes for the
errors. The logs of a pod are gone with the pod.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ROTATED_AT = 10 << 20
_STEP_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of output.

    Attributes:
        at: Its time in nanoseconds since 1970.
        text: Its text without the line break.
    """

    at: int
    text: str

    def shown(self, *, timestamps: bool) -> bytes:
        """Return the line as the API sends it."""
        if not timestamps:
            return f"{self.text}\n".encode()
        seconds, nanoseconds = divmod(self.at, 10**9)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z {self.text}\n".encode()


class ContainerLog:
    """The output of one start of a container."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._first_number, self._bytes, self._has_ended = 0, 0, False
        self._changed = threading.Condition()

    def write(self, text: str) -> None:
        """Add a line."""
        with self._changed:
            if self._bytes >= _ROTATED_AT:
                self._first_number += len(self._lines)
                self._lines, self._bytes = [], 0
            self._lines.append(Line(at=time.time_ns(), text=text))
            self._bytes += len(text) + 1
            self._changed.notify_all()

    def end(self) -> None:
        """Report that the container has ended."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def lines(self) -> list[Line]:
        """Return the present lines."""
        with self._changed:
            return list(self._lines)

    def follow(self, stopped: Callable[[], bool]) -> Iterator[Line]:
        """Yield the present lines and those that follow, until the container has ended."""
        position = self._first_number
        while not stopped():
            with self._changed:
                position = max(position, self._first_number)
                lines = self._lines[position - self._first_number :]
                has_ended = self._has_ended
                if not lines and not has_ended:
                    self._changed.wait(_STEP_SECONDS)
            yield from lines
            position += len(lines)
            if has_ended and not lines:
                return


class PodLogs:
    """The logs of all pods by uid and container."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, str], list[ContainerLog]] = {}
        self._lock = threading.Lock()

    def begin(self, uid: str, container: str) -> ContainerLog:
        """Return the log of a new start of a container; only the previous one is kept beside it."""
        log = ContainerLog()
        with self._lock:
            self._logs[uid, container] = [*self._logs.get((uid, container), [])[-1:], log]
        return log

    def find(self, uid: str, container: str, *, previous: bool) -> ContainerLog | None:
        """Return the log of a container, or the log of its previous start."""
        with self._lock:
            logs = self._logs.get((uid, container), [])
        if previous:
            return logs[-2] if len(logs) > 1 else None
        return logs[-1] if logs else None

    def remove(self, uid: str) -> None:
        """Remove the logs of a pod."""
        with self._lock:
            for key in [key for key in self._logs if key[0] == uid]:
                del self._logs[key]


def selected(lines: list[Line], query: Mapping[str, str]) -> list[Line]:
    """Return the lines that the parameters of a request select, before `limitBytes`."""
    if seconds := query.get("sinceSeconds"):
        since = time.time_ns() - int(seconds) * 10**9
        lines = [line for line in lines if line.at >= since]
    if text := query.get("sinceTime"):
        since = int(datetime.fromisoformat(text).timestamp() * 10**9)
        lines = [line for line in lines if line.at >= since]
    if tail := query.get("tailLines"):
        lines = lines[-int(tail) :] if int(tail) else []
    return lines
