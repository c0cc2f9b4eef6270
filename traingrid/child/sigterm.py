"""SIGTERM: interrupts a child at any point of its program."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from traingrid.child.supervisor import LetGoError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

AGAIN_SECONDS = 0.5
"""Interval in which LetGoError is raised again."""


class Sigterm:
    """The handler of SIGTERM, which raises LetGoError, because a call that waits may take longer than the time left.

    Some code discards an exception that the handler raises in it: a finalizer, the callback of a weak reference, and an
    extension that calls Python. pydantic builds its validators at their first use, and if it is interrupted then, it
    reports valid text as wrong. Therefore the exception is raised again, `held` delays it, and after an error
    `received` shows that the error may be a consequence.

    Attributes:
        received: True if the process has received SIGTERM.
    """

    def __init__(self) -> None:
        self.received = False
        self._is_held = False

    def install(self) -> None:
        """Handle SIGTERM from now on."""
        signal.signal(signal.SIGTERM, self._handle)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raise LetGoError only at the end of the block, which must not wait for anything.

        Raises:
            LetGoError: SIGTERM was received during the block.
        """
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            if self.received:
                self._raise()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second SIGTERM must not interrupt the shutdown
        self.received = True
        if not self._is_held:
            self._raise()

    def _raise(self, *_: object) -> NoReturn:
        signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, AGAIN_SECONDS)
        raise LetGoError
