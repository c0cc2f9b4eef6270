"""Actors: programs that take turns, one call of AWS after the other, and may be stopped for good between any two."""

from __future__ import annotations

import threading
from collections.abc import Callable

LONGEST_CALL_SECONDS = 30.0
"""How long anything takes between two pauses at most. A client gives a call up after a minute (traingrid/clients.py);
half of that keeps the four calls from a child's look for a cancel to its creation within what the audit calls late."""

_TO_ITS_REST = 1000
"""More turns than any program takes until it sleeps or ends."""


class KilledError(BaseException):
    """The program is no more. No Exception, so that nothing takes it for a call that failed."""


class Actor:
    """A program in a thread of its own, which runs only while it has its turn.

    Attributes:
        label: Who it is, for the reader of a failed run.
        began_at: When it began.
        acted_at: When it had its last turn.
        wakes_at: Until when it sleeps; 0 where it does not.
        loses_reply: Whether the reply of its next call is lost.
        returned: Whether its program has come to its end by itself, and without an error.
        result: What it has returned then.
        error: What ended it, if an error did.
        ended: Whether it has ended.
    """

    def __init__(self, label: str, work: Callable[[], object], now: float) -> None:
        self.label, self._work = label, work
        self.began_at = self.acted_at = now
        self.result: object = None
        self.returned = False
        self.wakes_at = 0.0
        self.loses_reply = False
        self.error: BaseException | None = None
        self.ended = False
        self._raises: BaseException | None = None
        self._dead = False
        self._its_turn, self._our_turn = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """Let it go on to its next pause, or its end."""
        if self.ended:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.label, daemon=True)
            self._thread.start()
        else:
            self._its_turn.release()
        self._our_turn.acquire()

    def pause(self) -> None:
        """Called by itself, around every call: give up the turn, and hear what has happened meanwhile."""
        if not self._dead:
            self._our_turn.release()
            self._its_turn.acquire()
        if self._dead:
            raise KilledError
        if self._raises:
            raised, self._raises = self._raises, None
            raise raised

    def signal(self, error: BaseException) -> None:
        """Let it meet an error where it pauses, as a signal's handler raises one; once."""
        self._raises = error
        self.wakes_at = 0.0

    def kill(self) -> None:
        """End it where it is; no call of it happens any more."""
        self._dead = True
        while not self.ended and self._thread is not None:
            self.turn()
        self.ended = True

    def _run(self) -> None:
        try:
            self.result = self._work()
            self.returned = True
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever looks at the actor judges it
            self.error = error
        self.ended = True
        self._our_turn.release()


class Turns:
    """Whose turn it is, and what time.

    Attributes:
        now: Seconds since 1970, of every clock there is.
        actors: All actors that have not ended.
        current: The one that has its turn.
        errors: Who ended by an error, and by which.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.errors: list[tuple[str, BaseException]] = []

    def add(self, label: str, work: Callable[[], object]) -> Actor:
        """Begin an actor."""
        actor = Actor(label, work, self.now)
        self.actors.append(actor)
        return actor

    def give(self, actor: Actor, times: int = 1) -> None:
        """Give an actor so many turns, until it sleeps or ends."""
        for _ in range(times):
            if actor.ended or actor.wakes_at > self.now:
                break
            self.current, actor.acted_at = actor, self.now
            try:
                actor.turn()
            finally:
                self.current = None
        if actor.ended and actor.error:
            self.errors.append((actor.label, actor.error))
        self.actors = [one for one in self.actors if not one.ended]

    def sleep(self, seconds: float) -> None:
        """Sleep, as an actor; as nobody, let time pass."""
        actor = self.current
        if actor is None:
            self.now += seconds
            return
        actor.wakes_at = self.now + seconds
        actor.pause()
        actor.wakes_at = 0.0

    def pass_time(self, seconds: float) -> None:
        """Let time pass; whoever would take longer than LONGEST_CALL_SECONDS for a call goes on before."""
        for actor in list(self.actors):
            if self.now + seconds - max(actor.acted_at, actor.wakes_at) > LONGEST_CALL_SECONDS:
                self.give(actor, _TO_ITS_REST)
        self.now += seconds

    def rest(self, turns: int = _TO_ITS_REST) -> None:
        """Let all actors go on until they sleep or have ended."""
        for actor in list(self.actors):
            self.give(actor, turns)

    def end_all(self) -> None:
        """Kill everybody."""
        for actor in self.actors:
            actor.kill()
        self.actors = []
