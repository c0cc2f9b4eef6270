"""Log follower: reads the log of a running training job without exceeding CloudWatch Logs' quotas.

A log decides nothing about a line. So no error of reading it ends the child, also not one that is not known here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.aws.log_events import LogPosition
from traingrid.backends.base import LogUnreadableError
from traingrid.backoff import backoff_seconds
from traingrid.child.polling_pace import PollingPace, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.child.attempt import Attempt

logger = logging.getLogger(__name__)
# Streams are listed again after this time, because a host that SageMaker replaces logs to another stream.
_DISCOVER_SECONDS = 600.0
_MAX_BACKOFF, _LAST_BACKOFF = 600.0, 30.0
_LAST_TRIES = 8


@dataclass(kw_only=True)
class LogFollower:
    """Reads the log of one attempt's training job incrementally."""

    attempt: Attempt
    pace: PollingPace
    _position: LogPosition = field(init=False, default_factory=dict)
    _look_at: float | None = field(init=False, default=None)
    _discover_at: float = field(init=False, default=float("-inf"))
    _expected_streams: int = field(init=False, default=0)
    _failures: int = field(init=False, default=0)
    _trouble: str = field(init=False, default="")

    def expect_start(self) -> None:
        """List the streams from the next read until those of the hosts' next start exist."""
        self._expected_streams = len(self._position) + self.attempt.job.instance_count

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield (host, line) of new lines if the next read is due, up to an error."""
        now, hosts = self.attempt.clock.now(), self.attempt.job.instance_count
        if self._look_at is None:
            self._look_at = now + self.pace.first_log_look(hosts)
        if now < self._look_at:
            return
        discover = len(self._position) < max(hosts, self._expected_streams) or now >= self._discover_at
        try:
            yield from self.attempt.backend.log_lines(
                self.attempt.name, self._position, to_end=False, discover=discover
            )
        except Exception as error:  # noqa: BLE001 - see the module
            self._failures += 1
            self._log_once(error)
        else:
            self._failures = 0
            self._discover_at = now + _DISCOVER_SECONDS if discover else self._discover_at
        wait = backoff_seconds(self._failures + 3, _MAX_BACKOFF) if self._failures else 0.0
        self._look_at = now + spread(max(self.pace.log_seconds(hosts), wait))

    def rest(self) -> Iterator[tuple[str, str]]:
        """Yield (host, line) of all lines up to the log's end; retry for some minutes if AWS throttles."""
        for tries in range(1, _LAST_TRIES + 1):
            try:
                yield from self.attempt.backend.log_lines(self.attempt.name, self._position)
            except Exception as error:  # noqa: BLE001 - see the module
                if tries == _LAST_TRIES or not (isinstance(error, LogUnreadableError) and error.passes):
                    self._log_once(error)
                    return
                self.attempt.clock.sleep(backoff_seconds(tries, _LAST_BACKOFF))
            else:
                return

    def _log_once(self, error: Exception) -> None:
        """Log an error once; the training job continues, and so does its child."""
        if isinstance(error, LogUnreadableError):
            trouble, level, trace = str(error), logging.INFO, None
        else:
            trouble, level, trace = (
                f"The log cannot be read: {error!r}. The training job continues.",
                logging.ERROR,
                error,
            )
        if trouble != self._trouble:
            self._trouble = trouble
            logger.log(level, trouble, exc_info=trace, extra={"event": "log_unreadable"})
