"""EventBridge's scheduled rules: `rate(...)` only, on the default buses, as in AWS.

The first event occurs one period after the rule was first seen, and later events one period after the previous one.
Events missed while the machine slept are not sent later. `cron(...)` is not built.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from moto.events.models import Rule, events_backends

from localcloud.credentials.account import account

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_LOOK_SECONDS = 1.0


def period_seconds(expression: str | None) -> float | None:
    """Return the seconds between two events of a schedule expression, or None if it is not a rate."""
    match = _RATE.fullmatch(expression or "")
    return timedelta(**{f"{match[2]}s": int(match[1])}).total_seconds() if match else None


class Schedules:
    """Fires scheduled rules from its own thread.

    Args:
        fire: Called with each due rule.
        now: Returns monotonic seconds.
    """

    def __init__(self, fire: Callable[[Rule], None], now: Callable[[], float] = time.monotonic) -> None:
        self._fire = fire
        self._now = now
        self._due: dict[str, float] = {}
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start checking the schedules."""
        threading.Thread(target=self._run, name="eventbridge-schedules", daemon=True).start()

    def stop(self) -> None:
        """Stop firing rules."""
        self._stopped.set()

    def tick(self) -> None:
        """Fire every due rule. A rule that was deleted or disabled starts a new period when it returns."""
        due: dict[str, float] = {}
        for rule, period in _rules_and_intervals():
            due_time = self._due.get(rule.arn, self._now() + period)
            if due_time <= self._now():
                self._fire(rule)
                due_time = self._now() + period
            due[rule.arn] = due_time
        self._due = due

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            self.tick()


def _rules_and_intervals() -> Iterator[tuple[Rule, float]]:
    for backend in list(events_backends[account()].values()):
        for bus in list(backend.event_buses.values()):
            for rule in list(bus.rules.values()):
                period = period_seconds(rule.scheduled_expression)
                if period and rule.state == "ENABLED":
                    yield rule, period
