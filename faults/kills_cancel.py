"""E1: the program `traingrid cancel`, killed before and after every call; what it has recorded ends all the same."""

import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faults.arena import PATIENCE_SECONDS, Arena, settled, until
from faults.kills import KILLS, kills_of, otherwise_ended, states
from faults.table import Outcome
from localcloud.faults import CallFault
from traingrid.ledger import CANCEL_ALL, cancel_of_job
from traingrid.violation import Violation

_COMMANDS_AT_ONCE = 4
_LINES_AT_ONCE = 16
"""Lines that are cancelled while the training jobs of all of them run, each with its child."""
_CALLS = 14
"""More calls than the command makes for one line; kills beyond its last call do not happen."""
_AGAIN = 0.2
"""Share of the commands that are killed when they are given again, too."""

_KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True, kw_only=True)
class _Command:
    """A command that is killed.

    Attributes:
        label: What the plan calls it.
        submission: Whom it cancels,
        index: and which line; all where there is none.
        effect: Whether it is killed before or after a call,
        action: of which operation,
        nth: and which one of those.
    """

    label: str
    submission: str
    index: int | None
    effect: str
    action: str
    nth: int


def of_cancel(arena: Arena, kills: int) -> Outcome:
    """E1: cancel running lines, and running submissions, by a command that is killed at its call `k`.

    Half of those whose intent was recorded are not given again: children and the reconciler do the rest. All others
    are, until one goes through.

    Args:
        arena: Where.
        kills: How many commands to kill; at the full volume each boundary is met several times.
    """
    chance = random.Random(arena.seed)  # noqa: S311 - moments, no secrets
    sweep = [(effect, nth) for nth in range(1, _CALLS + 1) for effect in KILLS]
    distance = max(1.0, len(sweep) / kills)
    planned = [sweep[int(number * distance) % len(sweep)] for number in range(kills)]
    chance.shuffle(planned)
    ids, struck, alone, violations = list[str](), list[str](), 0, list[Violation]()
    for start in range(0, kills, _LINES_AT_ONCE):
        commands = _running(arena, planned[start : start + _LINES_AT_ONCE])
        arena.plan(stub_seconds=600.0, calls=tuple(_faults(commands, chance)))
        with ThreadPoolExecutor(_COMMANDS_AT_ONCE, thread_name_prefix="person") as people:
            alone += sum(people.map(lambda command: _cancelled(arena, command), commands))
        struck += kills_of(arena)
        submissions = [arena.submitted(one) for one in {command.submission: None for command in commands}]
        settled(arena, submissions, sweeps=2)
        ids += [submission.id for submission in submissions]
        violations += otherwise_ended(arena, submissions, {"Stopped"})
    return Outcome(
        volume=f"{len(struck)} kills of {kills} commands",
        struck=len(struck),
        violations=[*arena.audit(*ids), *violations],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "never_given_again": alone,
            "states": states(arena, [arena.submitted(one) for one in ids]),
        },
    )


def _running(arena: Arena, planned: Sequence[tuple[str, int]]) -> list[_Command]:
    """Start a line for each kill: most in one submission, every fourth in one of its own; return the commands.

    Half of the latter have lost their children, so that nobody but the command stops what they train, and it is there
    that it is killed.
    """
    arena.plan(stub_seconds=600.0)
    own = [number for number in range(len(planned)) if number % 4 == 3]
    lines = {number: index for index, number in enumerate(n for n in range(len(planned)) if n not in own)}
    shared = arena.upload(len(lines))
    submissions = dict.fromkeys(lines, shared) | {number: arena.upload(1) for number in own}
    until(lambda: _training(arena, set(submissions.values())) == len(planned), "every line trains")
    lost = own[::2]
    for number in lost:
        arena.lose_children(arena.submitted(submissions[number]))
    return [
        _Command(
            label=f"person/{submissions[number]}/{number}",
            submission=submissions[number],
            index=lines.get(number),
            effect=effect,
            action="StopTrainingJob" if number in lost else "*",
            nth=1 if number in lost else nth,
        )
        for number, (effect, nth) in enumerate(planned)
    ]


def _training(arena: Arena, submissions: set[str]) -> int:
    return sum(state == "InProgress" for one in submissions for state in arena.states(one).values())


def _faults(commands: list[_Command], chance: random.Random) -> Iterator[CallFault]:
    for command in commands:
        yield CallFault.model_validate(
            {"effect": command.effect, "action": command.action, "nth": command.nth, "caller": f"{command.label}/1"}
        )
        if chance.random() < _AGAIN:
            yield CallFault(effect=chance.choice(KILLS), nth=chance.randint(1, _CALLS), caller=f"{command.label}/2")


def _cancelled(arena: Arena, command: _Command) -> bool:
    """Give a command until it goes through; return whether it was left alone after a kill, its intent recorded."""
    scope = CANCEL_ALL if command.index is None else cancel_of_job(command.index)
    arguments = ["cancel", command.submission, *(() if command.index is None else ("--index", str(command.index)))]
    for number in (1, 2, 3):
        code = arena.command(f"{command.label}/{number}", *arguments).wait(PATIENCE_SECONDS)
        if code == 0:
            return False
        if code != _KILLED:
            break
        if command.nth % 2 and scope in arena.plane.ledger.cancels(command.submission):
            return True
    message = f"`traingrid {' '.join(arguments)}` ended with {code} when it was given for the {number}. time"
    raise TimeoutError(message)
