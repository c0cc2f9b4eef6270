"""Controller: a thread that synchronizes the objects that have changed, in the manner of client-go's work queues.

It depends on the present state only, so it may be restarted or paused at any time: after a pause, and if the history of
changes is too short, it synchronizes all objects.
"""

from __future__ import annotations

import threading
import time
import traceback
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.store import Key, Object

_STEP_SECONDS = 0.5
_RETRY_SECONDS = 0.2
_DEFECT_SECONDS = 5.0
_EXPECTED = ("AlreadyExists", "Conflict", "Forbidden", "NotFound")
"""Errors for objects that others changed meanwhile, and errors of admission."""


class Controller(ABC):
    """A control loop.

    Attributes:
        paused: Set while it does nothing.
    """

    def __init__(self, client: Client) -> None:
        self.client, self.paused = client, threading.Event()
        self._stopped = threading.Event()
        self._due: dict[Key, float] = {}
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    @abstractmethod
    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the keys of the objects to synchronize after a change of an object."""

    @abstractmethod
    def sync(self, key: Key) -> float | None:
        """Synchronize an object, which may not exist.

        Returns:
            The seconds after which it must be synchronized again, if it does not change earlier.
        """

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop_soon(self) -> None:
        """Let the thread end, without waiting for it."""
        self._stopped.set()

    def stop(self) -> None:
        """End the thread."""
        self.stop_soon()
        self._thread.join()

    def _run(self) -> None:
        store, version = self.client.store, -1
        while not self._stopped.is_set():
            if self.paused.is_set():
                version = -1
                self._stopped.wait(0.05)
                continue
            version, queue = self._changed_keys(version)
            now = time.monotonic()
            queue |= dict.fromkeys(key for key, due_time in self._due.items() if due_time <= now)
            for key in queue:
                if self.paused.is_set() or self._stopped.is_set():
                    break
                self._sync(key)
            pause = min(self._due.values(), default=now + _STEP_SECONDS) - time.monotonic()
            store.wait(version, max(0.0, min(pause, _STEP_SECONDS)))

    def _changed_keys(self, version: int) -> tuple[int, dict[Key, None]]:
        """Return the present version and the keys of objects that have changed since an earlier one."""
        store = self.client.store
        queue: dict[Key, None] = {}
        if version >= 0:
            try:
                for change in store.changes(version):
                    version, metadata = change.version, change.after["metadata"]
                    key = (change.resource, metadata.get("namespace", ""), metadata["name"])
                    for entry in (change.before, change.after):
                        queue |= dict.fromkeys(self.keys(key, entry) if entry else ())
            except ApiError:
                version = -1
        if version < 0:
            version = store.version
            for key in store.present_keys():
                if current := store.find(*key):
                    queue |= dict.fromkeys(self.keys(key, current))
        return version, queue

    def _sync(self, key: Key) -> None:
        try:
            seconds = self.sync(key)
        except ApiError as error:
            if error.reason not in _EXPECTED:
                traceback.print_exc()
            seconds = _RETRY_SECONDS
        except Exception:  # noqa: BLE001 - the traceback is on stderr
            traceback.print_exc()  # a defect of localcloud must not end the loop
            seconds = _DEFECT_SECONDS
        self._due.pop(key, None)
        if seconds is not None:
            self._due[key] = time.monotonic() + seconds
