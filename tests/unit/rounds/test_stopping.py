"""Stopping: rounds end when further ones have not improved the global model."""

from dataclasses import replace

import pytest

from tests.unit.rounds.conftest import FakeRounds, finished, spec
from traingrid.rounds.journal import GlobalModel
from traingrid.rounds.spec import Stop
from traingrid.rounds.stopping import missing_sentence, rounds_without_improvement, stop_sentence

VALUES = [0.5, 0.7, 0.69, 0.7, 0.9]


def models(*values: float | None, metric: str = "validation_top1") -> list[GlobalModel]:
    return [
        GlobalModel(
            number=number,
            model="0a1b2c3d/0",
            region="us-east-1",
            artifact="s3://b/model.tar.gz",
            etag="1",
            size=1,
            metrics={} if value is None else {metric: value},
        )
        for number, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("values", "min_delta", "expected"),
    [
        ([], 0, 0),
        ([0.5], 0, 0),
        ([0.5, 0.6], 0, 0),
        ([0.5, 0.5, 0.4], 0, 2),
        ([0.5, 0.625, 0.5], 0.125, 2),
        ([0.5, None, 0.6], 0, 0),
        ([0.5, None, None], 0, 0),
        ([0.5, None, 0.4], 0, 1),
        ([None, None], 0, 0),
    ],
)
def test_an_improvement_is_over_the_best_value_before(
    values: list[float | None], min_delta: float, expected: int
) -> None:
    assert rounds_without_improvement(models(*values), Stop(min_delta=min_delta)) == expected


def test_a_lower_loss_is_an_improvement() -> None:
    stop = Stop(metric="validation_loss")
    losses = models(2, 1, 1.5, metric="validation_loss")
    assert rounds_without_improvement(losses, stop) == 1
    assert stop_sentence(losses, stop) == "No round follows round 3: validation_loss has not improved in 1 round."


def test_a_metric_that_is_missing_is_named() -> None:
    assert missing_sentence(models(0.5), Stop()) == ""
    assert missing_sentence(models(None), None) == ""
    expected = "The global models of rounds 1, 3 have no validation_top1, so that `stop` does not count them."
    assert missing_sentence(models(None, 0.5, None), Stop()) == expected


def test_rounds_end_after_the_patience_and_continue_with_more(grid: FakeRounds) -> None:
    grid.outcome = lambda job: (
        replace(job, metrics={"validation_top1": VALUES[int(job.name.partition("-")[0]) - 1]})
        if job.name.endswith("-merge")
        else job
    )
    stop = {"patience": 2}
    assert len(finished(grid, spec(rounds=5, stop=stop)).models) == 4
    assert len(finished(grid, spec(rounds=5, stop=stop)).models) == 4
    assert len(finished(grid, spec(rounds=5, stop={"patience": 3})).models) == 5
