"""Rounds: decisions, missing Regions, and their survival of the end of the process at every point."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.unit.rounds.conftest import FakeRounds, KilledError, failing, finished, rounds_of, spec
from traingrid.errors import TraingridError, UsageError
from traingrid.job.failures import is_divergence
from traingrid.job.state import JobState
from traingrid.rounds.borders import crossings
from traingrid.rounds.rounds import Rounds
from traingrid.rounds.state import RoundsState
from traingrid.submission.status import JobStatus

NAMES = {f"cells-{number:03d}-{line}" for number in (1, 2, 3) for line in range(3)}
ALL = NAMES | {f"{number}-merge" for number in (1, 2, 3)}


def lines_of(state: RoundsState, number: int) -> list[dict[str, object]]:
    return [json.loads(line) for line in state.rounds[number].lines.manifest.splitlines()[1:]]


def test_each_round_begins_with_the_last_global_model(grid: FakeRounds) -> None:
    state = finished(grid, spec())
    assert grid.trained() == dict.fromkeys(ALL, 1)
    assert all("init_from" not in line for line in lines_of(state, 1))
    for number in (2, 3):
        start = f"{state.rounds[number - 1].merge_submission}/0"
        assert {line["init_from"] for line in lines_of(state, number)} == {start}
    assert [model.number for model in state.models] == [1, 2, 3]


def test_the_order_of_records_differs_between_rounds_and_not_between_regions(grid: FakeRounds) -> None:
    state = finished(grid, spec(seed=7))
    seeds = [{json.dumps(line["hyperparameters"]) for line in lines_of(state, number)} for number in (1, 2)]
    assert seeds == [{'{"epochs": 2, "seed": 7}'}, {'{"epochs": 2, "seed": 8}'}]


def test_a_first_model_begins_the_first_round(grid: FakeRounds) -> None:
    state = finished(grid, spec(init_from="0a1b2c3d/1", rounds=1))
    assert {line["init_from"] for line in lines_of(state, 1)} == {"0a1b2c3d/1"}


def killing(at: int) -> Iterator[None]:
    """Raise KilledError at the given effect only, counted from 0."""
    for number in count():
        if number == at:
            raise KilledError
        yield


def etags(state: RoundsState) -> list[list[str]]:
    return [[each.etag for each in part.merge.contributions] for part in state.rounds.values() if part.merge]


def test_rounds_that_are_killed_at_any_effect_continue_with_the_same_contributions(grid: FakeRounds) -> None:
    """Effects are writes of the journal, uploads, copies and reads; the process is killed before and after each."""
    at = 0
    while True:
        effects = killing(at)
        grid.effect = lambda _name, effects=effects: next(effects)  # type: ignore[misc]  # a default binds the loop's value
        try:
            finished(grid, spec())
            break
        except KilledError:
            grid.effect = lambda _name: None
            state = finished(grid, spec())
        assert grid.trained() == dict.fromkeys(ALL, 1), f"killed at effect {at}"
        assert [len(each) for each in etags(state)] == [3, 3, 3], f"killed at effect {at}"
        grid = FakeRounds(grid.bucket)
        at += 1
    assert at > 60


def test_two_processes_share_the_rounds(grid: FakeRounds) -> None:
    first, second = rounds_of(grid, spec()), rounds_of(grid, spec())
    first.begin()
    second.begin()
    while not (first.step().ended and second.step().ended):
        pass
    assert grid.trained() == dict.fromkeys(ALL, 1)


def test_a_diverged_region_is_left_out_and_named(grid: FakeRounds) -> None:
    reason = "The loss is nan in step 3 (epoch 1): training diverged. There is no checkpoint yet."
    grid.outcome = failing("cells-002-1", reason)
    state = finished(grid, spec())
    second = state.rounds[2].merge
    assert second is not None
    assert [each.region for each in second.contributions] == ["us-east-1", "eu-west-1"]
    (absent,) = second.left_out
    assert (absent.region, absent.diverged, absent.reason) == ("us-west-2", True, f"is Failed: {reason}")
    assert [len(each) for each in etags(state)] == [3, 2, 3]


def test_a_region_whose_metric_is_not_finite_is_left_out(grid: FakeRounds) -> None:
    grid.outcome = lambda job: (
        replace(job, metrics={"validation_loss": float("nan")}) if job.name == "cells-001-0" else job
    )
    merge = finished(grid, spec()).rounds[1].merge
    assert merge is not None
    assert [(each.region, each.diverged, each.reason) for each in merge.left_out] == [
        ("us-east-1", True, "has the validation_loss nan")
    ]


def test_the_words_of_divergence_are_those_of_the_trainer() -> None:
    source = Path("training_container/recipe/training_state.py").read_text()
    assert "{observation}: training diverged. " in source
    script = Path("training_container/script_api/round_weights.py").read_text()
    assert "is not finite: training diverged. " in script
    assert is_divergence("The loss is nan in step 1: training diverged. Reduce it.")


def test_a_missing_region_stops_the_rounds_until_its_job_is_retried(grid: FakeRounds) -> None:
    grid.outcome = failing("cells-001-2")
    with pytest.raises(
        TraingridError, match=r"Round 1 has no model of eu-west-1: job 2 of \w+ is Failed: no capacity\."
    ):
        finished(grid, spec())
    assert "1-merge" not in grid.trained()
    grid.outcome = lambda job: job
    assert [len(each) for each in etags(finished(grid, spec()))] == [3, 3, 3]


def test_rounds_continue_without_a_missing_region(grid: FakeRounds) -> None:
    grid.outcome = failing("cells-001-2")
    state = finished(grid, spec(missing={"then": "continue"}))
    merge = state.rounds[1].merge
    assert merge is not None
    assert [(each.region, each.diverged) for each in merge.left_out] == [("eu-west-1", False)]
    assert [len(each) for each in etags(state)] == [2, 3, 3]


def slow(job: JobStatus) -> JobStatus:
    return replace(job, state=JobState.IN_PROGRESS, artifact="") if job.name == "cells-001-1" else job


def late(rounds: Rounds, clock: list[float]) -> None:
    """Run rounds until an hour has passed after their first jobs have ended."""
    rounds.begin()
    for _ in range(5):
        rounds.step()
    clock[0] = 3600.0


def test_a_region_that_is_late_is_left_out_and_its_job_cancelled(grid: FakeRounds) -> None:
    grid.outcome, clock = slow, [0.0]
    rounds = rounds_of(grid, spec(missing={"wait": "1h", "then": "continue"}), lambda: clock[0])
    late(rounds, clock)
    assert rounds.read().rounds[1].merge is None
    for _ in range(3):
        rounds.step()
    merge = rounds.read().rounds[1].merge
    assert merge is not None
    assert [each.reason for each in merge.left_out] == ["has not ended within 1h00m"]
    assert grid.cancelled == [(rounds.read().rounds[1].submission, 1)]


def test_a_region_that_is_late_stops_the_rounds(grid: FakeRounds) -> None:
    grid.outcome, clock = slow, [0.0]
    rounds = rounds_of(grid, spec(missing={"wait": "1h"}), lambda: clock[0])
    late(rounds, clock)
    with pytest.raises(TraingridError, match=r"has no model of us-west-2: job 1 of .* has not ended within 1h00m"):
        rounds.step()
    assert grid.cancelled == []


def test_one_model_is_not_merged(grid: FakeRounds) -> None:
    grid.outcome = lambda job: failing(job.name)(job) if job.region != "us-east-1" else job
    with pytest.raises(TraingridError, match="Round 1 has fewer than 2 models to merge: us-west-2 is Failed: no "):
        finished(grid, spec(missing={"then": "continue"}))


def test_a_failed_merge_stops_the_rounds_until_it_is_retried(grid: FakeRounds) -> None:
    grid.outcome = failing("2-merge", "no disk")
    with pytest.raises(TraingridError, match=r"The merge of round 2 is Failed: no disk\. Retry it: traingrid retry "):
        finished(grid, spec())
    grid.outcome = lambda job: job
    finished(grid, spec())
    assert grid.trained() == dict.fromkeys(ALL, 1)


def test_a_rejected_round_is_decided_again(grid: FakeRounds) -> None:
    grid.reject = True
    with pytest.raises(TraingridError, match="rejected"):
        finished(grid, spec())
    assert rounds_of(grid, spec()).read().rounds == {}


def test_another_specification_of_the_same_name_is_refused(grid: FakeRounds) -> None:
    finished(grid, spec(rounds=1))
    with pytest.raises(UsageError, match=r"The rounds cells exist with other values of epochs, outer\."):
        finished(grid, spec(rounds=1, epochs=3, outer="fedavg"))
    moved = spec(rounds=2, merge={"region": "us-east-1", "data": "s3://a/all"}, missing={"then": "continue"})
    assert len(finished(grid, moved).models) == 2  # these can change


def test_the_models_that_cross_a_border_follow_from_the_journal(grid: FakeRounds) -> None:
    found = [(each.round, each.from_region, each.to_region) for each in crossings(finished(grid, spec(rounds=2)))]
    to_merge = [("us-east-1", "eu-west-1"), ("us-west-2", "eu-west-1")]
    from_merge = [("eu-west-1", "us-east-1"), ("eu-west-1", "us-west-2")]
    assert found == [(1, *each) for each in to_merge] + [(2, *each) for each in from_merge + to_merge]
