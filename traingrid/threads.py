"""Threads: calls a function for many values in a bounded number of threads; the first error ends the calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sized
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")
_POLL_SECONDS = 0.5


def map_in_order(
    work: Callable[[T], R], values: Iterable[T], threads: int, stop: threading.Event | None = None
) -> Iterator[R]:
    """Yield the results of a function in the order of its values, while it is called for the values that follow.

    The first error in this order is raised after the calls that have begun; the others are cancelled.

    Args:
        work: The function.
        values: The values. Those of an iterator are read as the results are, at most 2 * `threads` of them ahead.
        threads: The number of threads.
        stop: Set when no more results are read, so that calls which have begun can end early.
    """
    calls: deque[Future[R]] = deque()
    max_threads = len(values) if isinstance(values, Sized) else 2 * threads
    pool = ThreadPoolExecutor(max(threads, 1))
    try:
        for value in values:
            calls.append(pool.submit(work, value))
            if len(calls) > max_threads:
                yield calls.popleft().result()
        while calls:
            yield calls.popleft().result()
    finally:
        if stop:
            stop.set()
        pool.shutdown(cancel_futures=True)


class Workers(Generic[T]):
    """Threads that call a function for each of some values, in no order, and that can be held and stopped.

    They are daemons: a child that receives SIGTERM ends within seconds, although S3 may take minutes for a copy.

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
        self._lock = threading.Lock()
        self._not_held = threading.Event()
        self._end_event = threading.Event()
        self._not_held.set()
        self._error: BaseException | None = None
        self._exhausted = False
        self._threads, self._running_threads = threads, threads

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self._threads):
            threading.Thread(target=self._loop, daemon=True).start()

    def run(self) -> bool:
        """Start the threads, and wait until they end; return True if the function has returned for every value."""
        self.start()
        while not self.wait(_POLL_SECONDS):
            pass
        return self._exhausted

    def wait(self, seconds: float) -> bool:
        """Wait until the threads end, for some seconds at most.

        Returns:
            True if they have ended.

        Raises:
            BaseException: The first error of the function, at once; the other threads take no further values.
        """
        ended = self._end_event.wait(seconds)
        if self._error:
            raise self._error
        return ended

    def hold(self, *, on: bool) -> None:
        """Let the threads take no further values until this is called with False."""
        if on:
            self._not_held.clear()
        else:
            self._not_held.set()

    def _loop(self) -> None:
        try:
            while self._process_next():
                pass
        except BaseException as error:  # noqa: BLE001  # raised again by `wait`
            with self._lock:
                self._error = self._error or error
            self._end_event.set()
        with self._lock:
            self._running_threads -= 1
            if self._running_threads == 0:
                self._end_event.set()

    def _process_next(self) -> bool:
        """Process the next value; return False if there is none."""
        # While the threads are held, a stop or an error must still end them.
        while not self._not_held.wait(_POLL_SECONDS):
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
