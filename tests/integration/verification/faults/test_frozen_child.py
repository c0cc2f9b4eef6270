"""Frozen children: a child that continues after its line was retried leaves no second live training job.

The child is frozen between any two of its calls, in memory, while its line is closed and perhaps retried.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import pytest

from tests.support.rows import each_row
from traingrid.child.attempt import Attempt
from traingrid.job.state import JobState
from traingrid.late_request import CREATES_END_SECONDS, SEND_WITHIN_SECONDS, SIGNATURE_SECONDS
from traingrid.submission import retry_plan
from verification.faults.state_machine import GridMachine
from verification.model.actors import Actor
from verification.model.sagemaker import TrainingJob

PAUSES = range(1, 33)
"""Numbers of turns after which the child is frozen: before and after each call until it watches its training job."""
BACKENDS = ("sagemaker", "eks")


class Place(NamedTuple):
    """Where a child is frozen.

    Attributes:
        backend: The line's backend.
        turns: The number of turns that the child has got.
    """

    backend: str
    turns: int


PLACES = [(f"{backend} after {turns}", Place(backend, turns)) for backend, turns in product(BACKENDS, PAUSES)]


@contextmanager
def a_grid(backend: str) -> Iterator[GridMachine]:
    """Yield a grid with a submitted line, whose child Batch may start."""
    machine = GridMachine()
    try:
        _submit(machine, backend)
        yield machine
    finally:
        machine.end()


def _submit(machine: GridMachine, backend: str) -> None:
    machine.a_first_manifest(
        lines=1,
        retries=0,
        replicas=False,
        backends=backend,
        under_way="submitted",
        until_started=False,
        as_asked=True,
    )
    machine.turns.end_all()
    machine.running.clear()
    for child in machine.account.queue.children:
        child.status = "RUNNABLE"


def frozen_after(grid: GridMachine, turns: int) -> Actor:
    """Start the child, freeze it after some turns, and let Batch give it up, as if its host was lost for good."""
    (child,) = grid.waiting
    actor = grid.start(child)
    grid.turns.give(actor, turns)
    actor.frozen = True
    (running,) = grid.running
    running.is_seen = False
    grid.account.queue.ended(child, 1)
    return actor


def closed(grid: GridMachine) -> None:
    """Let minutes pass, and the reconciler close the line."""
    grid.turns.pass_time(130.0)
    grid.programs.run_pass()


def retried(grid: GridMachine) -> bool:
    """Retry the line, and start its new child; return False if the retry leaves it."""
    (submission,) = grid.submissions
    grid.programs.retry(submission)
    for child in grid.waiting:
        grid.turns.give(grid.start(child), 1000)
    return len(grid.account.queue.jobs) > 1


def thawed(grid: GridMachine, actor: Actor) -> None:
    actor.frozen = False
    grid.turns.give(actor, 1000)


def state(grid: GridMachine) -> str:
    (item,) = (item for (_, kind), item in grid.account.table.items.items() if kind.startswith("job#"))
    return str(item["state"])


def live(grid: GridMachine) -> list[TrainingJob]:
    return [job for job in grid.active if job.state != "Stopping"]


def at_rest(grid: GridMachine) -> list[str]:
    grid.come_to_rest()
    return [str(violation) for violation in grid.audit()]


@each_row("place", PLACES)
def test_a_line_is_retried_only_when_its_frozen_child_cannot_create_any_more(place: Place) -> None:
    with a_grid(place.backend) as grid:
        frozen = frozen_after(grid, place.turns)
        closed(grid)
        if state(grid) != JobState.FAILED:
            assert grid.active or frozen.ended
            return
        waited = 0.0
        while not retried(grid):
            grid.turns.pass_time(60.0)
            waited += 60.0
            assert waited <= CREATES_END_SECONDS
        thawed(grid, frozen)
        assert grid.account.wrong == []
        assert at_rest(grid) == []


@each_row("place", PLACES)
def test_a_frozen_child_of_a_closed_line_leaves_nothing_running(place: Place) -> None:
    with a_grid(place.backend) as grid:
        frozen = frozen_after(grid, place.turns)
        closed(grid)
        is_closed = state(grid) == JobState.FAILED
        thawed(grid, frozen)
        assert not (is_closed and live(grid)), "the child stops its training job itself, without a pass"
        if is_closed:
            for job in grid.active:
                grid.move(job)
            assert retried(grid), "its answer ends the wait of a retry"
            assert [job.name[-2:] for job in live(grid)] == ["-2"]
        assert grid.account.wrong == []


@each_row("place", PLACES)
def test_a_child_stops_its_training_job_at_once_if_the_next_attempt_runs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_plan, "_reasons_in_flight", lambda _: {})
    with a_grid(place.backend) as grid:
        frozen = frozen_after(grid, place.turns)
        closed(grid)
        if state(grid) != JobState.FAILED:
            return
        assert retried(grid)
        thawed(grid, frozen)
        assert [job.name[-2:] for job in live(grid)] == ["-2"]


@each_row("place", PLACES)
def test_the_next_pass_stops_the_training_job_of_a_child_that_was_killed_after_its_late_create(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_plan, "_reasons_in_flight", lambda _: {})
    with a_grid(place.backend) as grid:
        frozen = frozen_after(grid, place.turns)
        closed(grid)
        if state(grid) != JobState.FAILED:
            return
        assert retried(grid)
        frozen.frozen = False
        while not frozen.ended and len(grid.active) < 2:
            grid.turns.give(frozen)
        frozen.kill()
        grid.programs.run_pass()
        assert [job.name[-2:] for job in live(grid)] == ["-2"]


@pytest.mark.parametrize("seconds", [SEND_WITHIN_SECONDS + 1, SIGNATURE_SECONDS + 1, 100_000.0])
@each_row("place", PLACES)
def test_a_child_that_was_frozen_for_long_goes_on_with_its_own_line(place: Place, seconds: float) -> None:
    with a_grid(place.backend) as grid:
        (child,) = grid.waiting
        actor = grid.start(child)
        grid.turns.give(actor, place.turns)
        actor.frozen = True
        grid.turns.pass_time(seconds)
        thawed(grid, actor)
        assert at_rest(grid) == []
        assert (state(grid), len(grid.account.training_jobs)) == ("Completed", 1)


def live_after_a_thaw(turns: int) -> int:
    """Return the number of live training jobs after a child was frozen, its line retried, and the child thawed."""
    with a_grid("sagemaker") as grid:
        frozen = frozen_after(grid, turns)
        closed(grid)
        if state(grid) == JobState.FAILED:
            retried(grid)
        thawed(grid, frozen)
        return len(live(grid))


def test_the_check_detects_a_child_without_the_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_plan, "_reasons_in_flight", lambda _: {})
    monkeypatch.setattr(Attempt, "is_over", lambda _: False)
    assert max(live_after_a_thaw(turns) for turns in PAUSES) == 2
