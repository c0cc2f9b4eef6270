"""Undo: registers the resources that a run creates, and deletes them in reverse order."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable


class InterruptedRunError(Exception):
    """The run is over, and no more resources may be created."""


class Undo:
    """A stack of deletions. Many threads may add to it until the deletion begins."""

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), False
        self._deletions: list[tuple[str, Callable[[], object]]] = []

    def later(self, what: str, delete: Callable[[], object]) -> None:
        """Register the deletion of a resource; call this before or directly after creating the resource.

        Raises:
            InterruptedRunError: The deletion has begun. A resource that already exists was deleted immediately.
        """
        with self._lock:
            if not self._closed:
                self._deletions.append((what, delete))
                return
        with suppress(BotoCoreError, ClientError, TimeoutError):
            delete()
        raise InterruptedRunError(what)

    def everything(self) -> list[str]:
        """Delete all resources in reverse order, and continue after failures.

        Returns:
            The resources that could not be deleted, each with the reason.
        """
        left: list[str] = []
        while True:
            with self._lock:
                self._closed = True
                if not self._deletions:
                    return left
                what, delete = self._deletions.pop()
            try:
                delete()
            except (BotoCoreError, ClientError, TimeoutError) as error:
                left.append(f"{what}: {error}")
