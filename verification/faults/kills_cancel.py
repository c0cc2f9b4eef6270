"""E1: the `traingrid cancel` command, killed before and after every call; every recorded cancel takes effect."""

import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from localcloud.faults.plan import CallFault
from traingrid.audit.violation import Violation
from traingrid.ledger.user_requests import CANCEL_ALL, cancel_of_job
from verification.deployed_grid import PATIENCE_SECONDS, until
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.table import Outcome

_COMMANDS_AT_ONCE = 4
_LINES_AT_ONCE = 16
"""Lines cancelled per round, while all of their training jobs and children run."""
_CALLS = 14
"""More calls than the command makes for one line; kills beyond its last call do not happen."""
_AGAIN = 0.2
"""Share of the commands that are killed again when they are repeated."""

_KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True, kw_only=True)
class _Command:
    """A command to be killed.

    Attributes:
        label: Name of its process in the plan.
        index: Index of the line to cancel; None for all lines.
        effect: Whether to kill it before or after the call.
        action: Operation of the call.
        nth: Ordinal of the call.
    """

    label: str
    submission: str
    index: int | None
    effect: str
    action: str
    nth: int


def of_cancel(grid: FaultyGrid, kills: int) -> Outcome:
    """E1: cancel running lines and running submissions with a command that is killed at its call `k`.

    If a killed command has recorded its intent, half of the time it is not repeated, and the children and the
    reconciler complete the cancel. All other commands are repeated until one succeeds.

    Args:
        kills: Number of commands to kill; at full volume each boundary is hit several times.
    """
    chance = random.Random(grid.seed)  # noqa: S311 - moments, no secrets
    points = [(effect, nth) for nth in range(1, _CALLS + 1) for effect in KILLS]
    distance = max(1.0, len(points) / kills)
    planned = [points[int(number * distance) % len(points)] for number in range(kills)]
    chance.shuffle(planned)
    ids, struck, alone, violations = list[str](), list[str](), 0, list[Violation]()
    for start in range(0, kills, _LINES_AT_ONCE):
        commands = _running(grid, planned[start : start + _LINES_AT_ONCE])
        grid.plan(stub_seconds=600.0, calls=tuple(_faults(commands, chance)))
        with ThreadPoolExecutor(_COMMANDS_AT_ONCE, thread_name_prefix="person") as people:
            alone += sum(people.map(lambda command: _cancelled(grid, command), commands))
        struck += kills_of(grid)
        submissions = [grid.submitted(identifier) for identifier in {command.submission: None for command in commands}]
        settled(grid, submissions, passes=2)
        ids += [submission.id for submission in submissions]
        violations += otherwise_ended(grid, submissions, {"Stopped"})
    return Outcome(
        volume=f"{len(struck)} kills of {kills} commands",
        struck=len(struck),
        violations=[*grid.audit(*ids), *violations],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "never_given_again": alone,
            "states": states(grid, [grid.submitted(identifier) for identifier in ids]),
        },
    )


def _running(grid: FaultyGrid, planned: Sequence[tuple[str, int]]) -> list[_Command]:
    """Start one line per kill and return the commands. Every fourth line has its own submission; the others share one.

    Half of the separate submissions have lost their children, so that only the command can stop their training jobs;
    these commands are killed at the call that stops them.
    """
    grid.plan(stub_seconds=600.0)
    own = [number for number in range(len(planned)) if number % 4 == 3]
    lines = {number: index for index, number in enumerate(n for n in range(len(planned)) if n not in own)}
    shared = grid.upload(len(lines))
    submissions = dict.fromkeys(lines, shared) | {number: grid.upload(1) for number in own}
    until(lambda: _training(grid, set(submissions.values())) == len(planned), "every line trains")
    lost = own[::2]
    for number in lost:
        grid.lose_children(grid.submitted(submissions[number]))
    return [
        _Command(
            label=f"person/{submissions[number]}/{number}",
            submission=submissions[number],
            index=lines.get(number),
            effect=effect,
            action=grid.engine.stop if number in lost else "*",
            nth=1 if number in lost else nth,
        )
        for number, (effect, nth) in enumerate(planned)
    ]


def _training(grid: FaultyGrid, submissions: set[str]) -> int:
    return sum(state == "InProgress" for submission in submissions for state in grid.states(submission).values())


def _faults(commands: list[_Command], chance: random.Random) -> Iterator[CallFault]:
    for command in commands:
        yield CallFault.model_validate(
            {"effect": command.effect, "action": command.action, "nth": command.nth, "caller": f"{command.label}/1"}
        )
        if chance.random() < _AGAIN:
            yield CallFault(effect=chance.choice(KILLS), nth=chance.randint(1, _CALLS), caller=f"{command.label}/2")


def _cancelled(grid: FaultyGrid, command: _Command) -> bool:
    """Repeat a command until it succeeds; return True if it was killed after recording its intent and not repeated."""
    scope = CANCEL_ALL if command.index is None else cancel_of_job(command.index)
    arguments = ["cancel", command.submission, *(() if command.index is None else ("--index", str(command.index)))]
    for number in (1, 2, 3):
        code = grid.command(f"{command.label}/{number}", *arguments).wait(PATIENCE_SECONDS)
        if code == 0:
            return False
        if code != _KILLED:
            break
        if command.nth % 2 and scope in grid.plane.ledger.cancels(command.submission):
            return True
    message = f"`traingrid {' '.join(arguments)}` exited with {code} in attempt {number}"
    raise TimeoutError(message)
