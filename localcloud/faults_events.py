"""Faults of events: how often and when each one goes on its way."""

import threading
from collections.abc import Callable

from localcloud.faults import Faults


class FaultyWay:
    """The way of events from a service to its bus. What waits when the server stops is lost with the account."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._lock = threading.Lock()
        self._overtaken: list[Callable[[], None]] = []
        self._timers: set[threading.Timer] = set()

    def send(self, source: str, deliver: Callable[[], None]) -> None:
        """Deliver an event as often and when the plan says.

        Args:
            source: The event's source.
            deliver: Delivers it once, without waiting for its targets.
        """
        fate = self._faults.event(source)
        if fate is None:
            deliver()
            return
        if fate.dropped:
            return
        for _ in range(fate.copies):
            if fate.overtaken:
                self._hold(deliver, fate.seconds)
            elif fate.late:
                self._later(fate.seconds, deliver)
            else:
                deliver()
        if not fate.overtaken:
            self._release()

    def stop(self) -> None:
        """Deliver nothing any more."""
        with self._lock:
            for timer in self._timers:
                timer.cancel()
            self._timers.clear()
            self._overtaken.clear()

    def _hold(self, deliver: Callable[[], None], seconds: float) -> None:
        with self._lock:
            self._overtaken.append(deliver)
        self._later(seconds, self._release)

    def _release(self) -> None:
        with self._lock:
            held, self._overtaken = self._overtaken, []
        for deliver in held:
            deliver()

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        with self._lock:
            self._timers = {waiting for waiting in self._timers if waiting.is_alive()} | {timer}
            timer.start()
