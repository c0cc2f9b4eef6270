"""Faults of events: drops, duplicates, delays and reorders events before delivery."""

import threading
from collections.abc import Callable

from localcloud.faults.faults import Faults


class FaultyWay:
    """The path of events from a service to its bus. Events that wait when the server stops are lost."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._lock = threading.Lock()
        self._held_deliveries: list[Callable[[], None]] = []
        self._timers: set[threading.Timer] = set()

    def send(self, source: str, deliver: Callable[[], None]) -> None:
        """Deliver an event as often and as late as the plan requires.

        Args:
            deliver: Delivers the event once, without waiting for its targets.
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
        """Stop delivering events."""
        with self._lock:
            for timer in self._timers:
                timer.cancel()
            self._timers.clear()
            self._held_deliveries.clear()

    def _hold(self, deliver: Callable[[], None], seconds: float) -> None:
        with self._lock:
            self._held_deliveries.append(deliver)
        self._later(seconds, self._release)

    def _release(self) -> None:
        with self._lock:
            deliveries, self._held_deliveries = self._held_deliveries, []
        for deliver in deliveries:
            deliver()

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        with self._lock:
            self._timers = {waiting for waiting in self._timers if waiting.is_alive()} | {timer}
            timer.start()
