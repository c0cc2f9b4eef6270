"""Workers: calls a function for many values in a bounded number of threads.

The threads are daemons: a child that receives SIGTERM ends within seconds, although S3 may take minutes for a copy.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
_LOOK_SECONDS = 0.5


class Workers(Generic[T]):
    """Threads that call a function for each of some values.

    Args:
        work: The function.
        values: The values; they may be produced while the threads work.
        threads: The number of threads.
        stopped: Returns True if the threads must not take further values.
    """

    def __init__(
        self, work: Callable[[T], None], values: Iterable[T], threads: int, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._work, self._values, self._stopped = work, iter(values), stopped
        self._lock, self._running, self._ended = threading.Lock(), threading.Event(), threading.Event()
        self._running.set()
        self._error: BaseException | None = None
        self._exhausted = False
        self._threads, self._left = threads, threads

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self._threads):
            threading.Thread(target=self._loop, daemon=True).start()

    def run(self) -> bool:
        """Start the threads, and wait until they end; return True if the function has returned for every value."""
        self.start()
        while not self.wait(_LOOK_SECONDS):
            pass
        return self._exhausted

    def wait(self, seconds: float) -> bool:
        """Wait until the threads end, for some seconds at most.

        Returns:
            True if they have ended.

        Raises:
            BaseException: The first error of the function, at once; the other threads take no further values.
        """
        ended = self._ended.wait(seconds)
        if self._error:
            raise self._error
        return ended

    def hold(self, *, on: bool) -> None:
        """Let the threads take no further values until this is called with False."""
        if on:
            self._running.clear()
        else:
            self._running.set()

    def _loop(self) -> None:
        try:
            while self._take():
                pass
        except BaseException as error:  # noqa: BLE001  # raised again by `wait`
            with self._lock:
                self._error = self._error or error
            self._ended.set()
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._ended.set()

    def _take(self) -> bool:
        """Process the next value; return False if there is none."""
        while not self._running.wait(_LOOK_SECONDS):
            if self._stopped() or self._error:
                return False
        with self._lock:
            if self._stopped() or self._error or self._exhausted:
                return False
            try:
                value = next(self._values)
            except StopIteration:
                self._exhausted = True
                return False
        self._work(value)
        return True
