"""Folder copy: copies all objects of a folder to another Region in several threads, and verifies the result."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.text import counted
from traingrid.threads import Workers
from traingrid.transfers.errors import MoveError, SourceChangedError
from traingrid.transfers.verification import SENTENCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.transfers.listing import Folders, Pair, Survey
    from traingrid.transfers.object_copy import ObjectCopy

THREADS = 16
"""The number of objects that are copied at once."""


@dataclass(frozen=True, kw_only=True)
class CopyProgress:
    """The verified objects so far: their number, their size in bytes, and their number by evidence."""

    copied_objects: int
    copied_bytes: int
    verified: Mapping[str, int]


@dataclass(kw_only=True)
class FolderCopy:
    """A copy of one folder.

    Attributes:
        threads: The number of objects to copy at once.
    """

    folders: Folders
    objects: ObjectCopy
    threads: int = THREADS
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _bytes: int = field(default=0, init=False)
    _verified: Counter[str] = field(default_factory=Counter, init=False)
    _last: list[Pair] = field(default_factory=list, init=False)
    _workers: Workers[Pair] = field(init=False)

    def start(self, *, is_held: bool = False) -> None:
        """Start to copy the missing objects, and to verify the others; if `is_held`, only after `hold(on=False)`."""
        self._workers = Workers(self._copy, self.folders.pairs(), self.threads, self._stop.is_set)
        self._workers.hold(on=is_held)
        self._workers.start()

    def wait(self, seconds: float) -> bool:
        """Wait until all objects are verified, for some seconds at most; return True if they are.

        Raises:
            MoveError: The source changed, or the target has an object that is not a copy.
        """
        return self._workers.wait(seconds)

    def hold(self, *, on: bool) -> None:
        """Begin no further objects until this is called with False."""
        self._workers.hold(on=on)

    def stop(self) -> None:
        """Begin no further objects. Requests that S3 has received still take effect."""
        self._stop.set()

    def progress(self) -> CopyProgress:
        """Return the verified objects so far."""
        with self._lock:
            return CopyProgress(
                copied_objects=self._verified.total(), copied_bytes=self._bytes, verified=dict(self._verified)
            )

    def finish(self, before: Survey) -> Survey:
        """Copy the objects of `Folders.last`, check the whole target, and then copy the source's marker, if it has one.

        The marker is copied last, because it registers the target as a replica.

        Args:
            before: The survey before the copy.

        Raises:
            MoveError: The source has changed since `before`, or the target lacks an object.
        """
        for pair in self._last:
            self._copy_now(pair)
        after = self.folders.survey()
        if after.source_digest != before.source_digest:
            raise SourceChangedError(self.folders.source)
        if after.missing or self.progress().copied_objects != after.objects:
            text = f"{self.folders.target} lacks {counted(after.missing, 'object')} that had been copied."
            raise MoveError(text, "Do not delete objects while they are copied; retry the line.")
        if after.has_marker:
            self._copy_marker()
        return after

    def _copy_marker(self) -> None:
        source = self.folders.source / names.DATASET_MARKER
        object_head = self.folders.source_store.head(source)
        if object_head is None:
            raise SourceChangedError(source)
        self.objects.copy(source, object_head.etag, self.folders.target / names.DATASET_MARKER, lambda: False)

    def _copy(self, pair: Pair) -> None:
        if pair.name not in self.folders.last:
            self._copy_now(pair)
            return
        with self._lock:
            self._last.append(pair)

    def _copy_now(self, pair: Pair) -> None:
        source, target = self.folders.source / pair.name, self.folders.target / pair.name
        evidence = self.objects.copy(source, pair.source.etag, target, self._stop.is_set)
        if evidence:
            with self._lock:
                self._verified[evidence] += 1
                self._bytes += pair.source.size


def verification_sentence(verified: Mapping[str, int]) -> str:
    """Return how many objects were verified by which evidence, as a phrase for a person."""
    return "; ".join(
        f"{counted(verified[name], 'object')} {sentence}" for name, sentence in SENTENCES.items() if verified.get(name)
    )
