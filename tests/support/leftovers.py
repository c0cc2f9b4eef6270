"""Leftovers: state of the process that a test file changes and does not restore, so that a later file depends on it."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM)
_LOGGERS = ("root", "traingrid", "localcloud", "batch_job", "training_container")
"""The loggers whose levels tests read. Libraries set those of their own when they are first used."""
ENDS_WITHIN = 5.0
"""Seconds in which a thread that is about to end has ended."""


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """The state of this process that all test files share."""

    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path = field(default_factory=Path.cwd)
    handlers: dict[str, Any] = field(
        default_factory=lambda: {number.name: signal.getsignal(number) for number in SIGNALS}
    )
    levels: dict[str, int] = field(default_factory=lambda: {logger.name: logger.level for logger in _loggers()})
    log_handlers: list[logging.Handler] = field(default_factory=lambda: list(logging.root.handlers))
    threads: set[threading.Thread] = field(default_factory=lambda: set(threading.enumerate()))
    aws: list[str] = field(default_factory=lambda: list(_of_aws()))

    def leftovers(self) -> list[str]:
        """Return a description of each difference of the process from this state."""
        return [*self._variables(), *self._settings(), *self._threads(), *self._aws()]

    def _variables(self) -> Iterator[str]:
        own = {name for name in self.environment.keys() | os.environ.keys() if not name.startswith("PYTEST_")}
        yield from (f"{name} in os.environ" for name in own if self.environment.get(name) != os.environ.get(name))

    def _settings(self) -> Iterator[str]:
        if self.folder != Path.cwd():
            yield f"the working directory {Path.cwd()}"
        yield from (f"a handler of {name}" for name, handler in self.handlers.items() if handler != _handler_of(name))
        yield from (
            f"the level of the logger {name}"
            for name, level in self.levels.items()
            if logging.getLogger("" if name == "root" else name).level != level
        )
        if self.log_handlers != logging.root.handlers:
            yield "handlers of the root logger"

    def _aws(self) -> list[str]:
        return [leftover for leftover in _of_aws() if leftover not in self.aws]  # a folder may share a localcloud

    def _threads(self) -> Iterator[str]:
        for thread in set(threading.enumerate()) - self.threads:
            if not thread.daemon:
                thread.join(ENDS_WITHIN)
                yield from [f"the thread {thread.name}"] * thread.is_alive()


def _handler_of(name: str) -> Any:
    return signal.getsignal(signal.Signals[name])


def _loggers() -> list[logging.Logger]:
    named = logging.root.manager.loggerDict.values()
    loggers = [logging.root, *(logger for logger in named if isinstance(logger, logging.Logger))]
    return [logger for logger in loggers if logger.name.partition(".")[0] in _LOGGERS]


def _of_aws() -> Iterator[str]:
    """Yield what localcloud and moto leave in their modules."""
    if (server := sys.modules.get("localcloud.server.local_cloud")) and server._ONE_PER_PROCESS.locked():
        yield "a running localcloud"
    if (moto := sys.modules.get("moto.core.models")) and moto.MockAWS._nested_count:
        yield "a started mock_aws"
