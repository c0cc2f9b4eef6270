"""Actors: programs that run in turns, one AWS call at a time, and can be killed between any two calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

MAX_CALL_SECONDS = 30.0
"""Longest time between two pauses. A client's call times out after a minute (traingrid/aws/clients.py); half of that
keeps the four calls from a child's check for a cancel to its create within the audit's limit for late creates."""

_TO_ITS_REST = 1000
"""More turns than any program needs until it sleeps or ends."""


class KilledError(BaseException):
    """The program was killed. A BaseException, so that no handler mistakes it for a failed call."""


class Actor:
    """A program in its own thread, which runs only during its turns.

    Attributes:
        label: Its name in error messages.
        began_at: Time at which it began.
        acted_at: Time of its last turn.
        wakes_at: Time until which it sleeps; 0 if it does not sleep.
        loses_reply: True if the reply to its next call will be lost.
        returned: True if its program has returned without an exception.
        result: The program's return value.
        error: The exception that ended it, if any.
        ended: True if it has ended.
        frozen: True while it gets no turns, however much time passes.
    """

    def __init__(self, label: str, work: Callable[[], object], now: float) -> None:
        self.label, self._work = label, work
        self.began_at = self.acted_at = now
        self.result: object = None
        self.returned = False
        self.wakes_at = 0.0
        self.loses_reply = False
        self.error: BaseException | None = None
        self.ended = self.frozen = False
        self._raises: BaseException | None = None
        self._dead = False
        self._its_turn, self._our_turn = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """Run it until its next pause or its end."""
        if self.ended:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.label, daemon=True)
            self._thread.start()
        else:
            self._its_turn.release()
        self._our_turn.acquire()

    def pause(self) -> None:
        """Give up the turn; the program itself calls this around every AWS call. Raises pending errors afterwards."""
        if not self._dead:
            self._our_turn.release()
            self._its_turn.acquire()
        if self._dead:
            raise KilledError
        if self._raises:
            raised, self._raises = self._raises, None
            raise raised

    def signal(self, error: BaseException) -> None:
        """Raise an error once where it is paused, as a signal handler does."""
        self._raises = error
        self.wakes_at = 0.0

    def kill(self) -> None:
        """End it where it is paused; none of its later calls takes effect."""
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
        except BaseException as error:  # noqa: BLE001 - the owner of the actor judges it
            self.error = error
        self.ended = True
        self._our_turn.release()


class Turns:
    """Gives actors their turns, and holds the clock.

    Attributes:
        now: Seconds since 1970, for every clock.
        actors: All actors that have not ended.
        current: The actor whose turn it is.
        errors: Label and exception of each actor that an exception ended.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.errors: list[tuple[str, BaseException]] = []

    def add(self, label: str, work: Callable[[], object]) -> Actor:
        """Create an actor."""
        actor = Actor(label, work, self.now)
        self.actors.append(actor)
        return actor

    def give(self, actor: Actor, times: int = 1) -> None:
        """Give an actor this many turns, or fewer if it sleeps or ends."""
        for _ in range(times):
            if actor.ended or actor.frozen or actor.wakes_at > self.now:
                break
            self.current, actor.acted_at = actor, self.now
            try:
                actor.turn()
            finally:
                self.current = None
        if actor.ended and actor.error:
            self.errors.append((actor.label, actor.error))
        self.actors = [other_actor for other_actor in self.actors if not other_actor.ended]

    def sleep(self, seconds: float) -> None:
        """Put the current actor to sleep; without one, advance the clock."""
        actor = self.current
        if actor is None:
            self.now += seconds
            return
        actor.wakes_at = self.now + seconds
        actor.pause()
        actor.wakes_at = 0.0

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, after running each actor whose call would exceed MAX_CALL_SECONDS."""
        for actor in list(self.actors):
            if self.now + seconds - max(actor.acted_at, actor.wakes_at) > MAX_CALL_SECONDS:
                self.give(actor, _TO_ITS_REST)
        self.now += seconds

    def rest(self, turns: int = _TO_ITS_REST) -> None:
        """Run all actors until they sleep or have ended."""
        for actor in list(self.actors):
            self.give(actor, turns)

    def end_all(self) -> None:
        """Kill all actors."""
        for actor in self.actors:
            actor.kill()
        self.actors = []
