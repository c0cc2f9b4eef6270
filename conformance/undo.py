"""Undo: everything that a run creates, and how it is deleted again, last first."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable


class Undo:
    """A stack of deletions. It may be filled from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deletions: list[tuple[str, Callable[[], object]]] = []

    def later(self, what: str, delete: Callable[[], object]) -> None:
        """Register how a resource is deleted; call it before or directly after the resource is created."""
        with self._lock:
            self._deletions.append((what, delete))

    def everything(self) -> list[str]:
        """Delete all resources, the last one first, whatever fails meanwhile.

        Returns:
            The resources that could not be deleted, each with the reason.
        """
        left = []
        while True:
            with self._lock:
                if not self._deletions:
                    return left
                what, delete = self._deletions.pop()
            try:
                delete()
            except (BotoCoreError, ClientError, TimeoutError) as error:
                left.append(f"{what}: {error}")
