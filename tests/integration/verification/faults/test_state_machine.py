"""A short run of the fault suite's state machine, proof that it can fail, and the failures that it once found."""

from collections.abc import Callable

import pytest

from traingrid.backends.eks.backend import Eks
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.child.attempt import Attempt
from traingrid.child.capacity_wait import CapacityWait
from traingrid.job.candidates import next_candidate
from traingrid.job.facts import JobFacts
from traingrid.job.failures import CAPACITY
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem
from verification.faults import disabled_safeguards
from verification.faults.state_machine import GridMachine, played
from verification.model import programs
from verification.model.table import ModelTable

MAX_EXAMPLES = 10_000
"""A run ends with the example that detects the defect: after several hundred, but not always the same, because names
and times differ. Of 2,000, none did once."""


def test_invariants_hold_for_random_events_kills_and_losses() -> None:
    GridMachine.seen.clear()
    played(examples=100, steps=30, number=1)
    assert GridMachine.seen["training jobs"] > 100
    assert GridMachine.seen["cancels"] > 10
    assert GridMachine.seen["programs killed"] > 10
    assert GridMachine.seen["moves to another engine"] > 10
    assert GridMachine.seen["waits for capacity given up"] > 10
    assert GridMachine.seen["children frozen"] > 10


@pytest.fixture
def put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore after the test the methods that a sabotage replaces."""
    monkeypatch.setattr(SageMaker, "start", SageMaker.start)
    monkeypatch.setattr(Eks, "start", Eks.start)
    monkeypatch.setattr(Attempt, "is_cancelled", Attempt.is_cancelled)


def test_a_create_without_a_check_after_it_is_detected(put_back: None) -> None:
    disabled_safeguards.SAFEGUARDS["check after create"]()
    with pytest.raises(AssertionError):
        played(examples=MAX_EXAMPLES, steps=30, number=1, shortest=False)


def test_missing_conditional_writes_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelTable, "is_conditional", False)
    with pytest.raises(AssertionError):
        played(examples=MAX_EXAMPLES, steps=30, number=1, shortest=False)


def test_a_move_before_the_training_job_has_ended_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(wait: CapacityWait, item: JobItem, seen: TrainingJobDescription) -> bool:
        if not gives_up(wait, item, seen):
            return False
        attempt = wait.attempt
        region, backend = next_candidate(attempt.candidates, attempt.candidate)
        outcome = attempt.outcome(CAPACITY, JobState.STOPPED, "")
        return attempt.ledger.next_attempt(attempt.key, outcome, region, backend=backend)

    gives_up = CapacityWait.look
    monkeypatch.setattr(CapacityWait, "look", look)
    with pytest.raises(AssertionError, match="are active at the same time"):
        played(examples=MAX_EXAMPLES, steps=30, number=1, shortest=False)


def test_a_stop_without_a_recorded_decision_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(attempt: Attempt, facts: JobFacts, **options: bool) -> bool:
        facts.pop("stopped_for", None)
        return records(attempt, facts, **options)

    records = Attempt.record
    monkeypatch.setattr(Attempt, "record", record)
    with pytest.raises(AssertionError, match="is recorded as stopped by a user, but was not"):
        played(examples=MAX_EXAMPLES, steps=30, number=1, shortest=False)


def play(*steps: Callable[[GridMachine], None], under_way: str = "submitted", backends: str = "") -> None:
    """Run given steps, followed by the teardown of every example."""
    machine = GridMachine()
    try:
        machine.a_first_manifest(
            lines=1,
            retries=0,
            replicas=False,
            under_way=under_way,
            until_started=False,
            as_asked=True,
            backends=backends,
        )
        for step in steps:
            step(machine)
            machine.nothing_is_wrong()
    finally:
        machine.teardown()


def killed_after(turns: int, backends: str) -> None:
    """Kill a child after some turns; Batch starts it again."""
    play(
        lambda grid: grid.act(0, turns),
        lambda grid: grid.kill(0, for_good=False),
        lambda grid: grid.start_children(1, 60),
        backends=backends,
    )


def killed_at_any_turn(backends: str) -> None:
    for turns in range(1, 40):
        killed_after(turns, backends)


@pytest.mark.parametrize("backends", ["", "eks"])
def test_a_child_that_does_not_find_its_training_job_is_detected(put_back: None, backends: str) -> None:
    """Random kills strike between the create and its record once in thousands of examples."""
    killed_at_any_turn(backends)
    disabled_safeguards.SAFEGUARDS["attach"]()
    with pytest.raises(AssertionError, match="but the ledger has Failed"):
        killed_at_any_turn(backends)


def test_no_create_long_after_a_cancel_when_sagemaker_is_throttled() -> None:
    play(
        lambda grid: grid.lose_sight(0),
        lambda grid: grid.throttle("sagemaker"),
        lambda grid: grid.time_passes(70.0),
        lambda grid: grid.lose_reply(0),
        lambda grid: grid.time_passes(1.0),
        lambda grid: grid.cancel(0, None, ""),
    )


@pytest.mark.parametrize("first", ["the old child", "the new child"])
def test_a_sleeping_child_leaves_a_retried_line_alone(first: str) -> None:
    def the_old_child_wakes(grid: GridMachine) -> None:
        grid.time_passes(70.0)
        grid.all_act(60)

    def the_new_child_starts(grid: GridMachine) -> None:
        grid.start_children(1, 60)

    order = (the_old_child_wakes, the_new_child_starts)
    play(
        lambda grid: grid.retry(0, corrected=True),
        lambda grid: grid.turns.give(grid.turns.actors[-1], 60),
        *(order if first == "the old child" else reversed(order)),
        under_way="failed",
    )


def deleted_while_its_child_was_lost() -> None:
    play(
        lambda grid: grid.all_act(60),
        lambda grid: grid.kill(0, for_good=False),
        lambda grid: grid.training_goes_on(0, ""),
        lambda grid: grid.training_goes_on(0, ""),
        lambda grid: grid.drop(0),
        lambda grid: grid.drop(0),
        lambda grid: grid.time_passes(700.0),
        lambda grid: grid.clean_up(0),
        lambda grid: grid.start_children(1, 60),
    )


def test_a_training_job_deleted_before_its_end_is_recorded_is_not_recreated() -> None:
    deleted_while_its_child_was_lost()


def test_a_child_that_ignores_the_ledger_recreates_a_deleted_training_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JobItem, "was_seen", False)
    with pytest.raises(AssertionError, match="was accepted twice"):
        deleted_while_its_child_was_lost()


def test_a_child_that_does_not_notice_a_retry_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "array_file", lambda _key: "")
    seen = "another array retries its line|no child or training job is running for it"
    with pytest.raises(AssertionError, match=seen):
        played(examples=MAX_EXAMPLES, steps=30, number=1, shortest=False)


def test_a_training_job_without_a_fingerprint_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traingrid.child.attempt.tags_of", lambda *_: {"traingrid:grid": "traingrid"})
    with pytest.raises(AssertionError, match="because of a foreign training job"):
        played(examples=MAX_EXAMPLES, steps=30, number=1, shortest=False)
