"""Timeline: validation, bytes and cost of each Region in each round."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.unit.rounds.conftest import FakeRounds, failing, finished, spec
from traingrid.rounds.borders import Crossing
from traingrid.rounds.state import RoundsState
from traingrid.rounds.timeline import ObservedJob, RoundView, best_round, data_of, model_commands, round_views
from traingrid.submission.status import JobStatus

GIGABYTE = 10**9


class Observed:
    """Jobs that have all trained for a minute, for a dollar."""

    def __init__(self, dollars: float | None = 1.0, reported: Mapping[str, float] = {}) -> None:
        self.dollars, self.reported = dollars, reported

    def job(self, _submission: str, _index: int) -> ObservedJob | None:
        metrics = {"validation_top1": 0.9, **self.reported}
        return ObservedJob(state="Completed", seconds=60.0, metrics=metrics, dollars=self.dollars)

    def transfer_dollars(self, crossing: Crossing) -> float | None:
        return crossing.bytes / GIGABYTE if crossing.from_region == "us-east-1" else None


def views(grid: FakeRounds, observed: Observed | None = None, **changes: object) -> list[RoundView]:
    return round_views(finished(grid, spec(**changes)), observed or Observed())


def with_metrics(*top1s: float) -> Callable[[JobStatus], JobStatus]:
    """Return an outcome in which the merges have some validation_top1, in their order."""

    def outcome(job: JobStatus) -> JobStatus:
        if not job.name.endswith("-merge"):
            return job
        top1 = top1s[int(job.name.partition("-")[0]) - 1]
        return replace(job, metrics={"validation_top1": top1, "part_0_top1": 0.25, "part_1_top1": 0.5})

    return outcome


def test_the_best_round_is_the_first_of_equal_ones(grid: FakeRounds) -> None:
    grid.outcome = with_metrics(0.5, 0.75, 0.75)
    rounds = views(grid)
    best = best_round(rounds)
    assert best is not None
    assert best.number == 2
    assert best_round([]) is None
    assert data_of(rounds) == "the data of the merge"
    assert model_commands("my_cells.v2", best) == [
        f"traingrid download {best.merge} 0",
        f"traingrid register {best.merge} 0 --group my-cells-v2",
    ]


def test_there_are_no_rounds_before_the_first() -> None:
    assert round_views(RoundsState(), Observed()) == []


def test_scripts_report_the_validation_of_the_last_global_model(grid: FakeRounds) -> None:
    grid.outcome = lambda job: replace(job, metrics={})
    rounds = views(grid, Observed(reported={"global_validation_top1": 0.625}))
    assert [view.top1 for view in rounds] == [0.625, 0.625, None]


class Partial(Observed):
    """Scripts that report the global model; `last` is the value of the second Region in the third round."""

    def __init__(self, grid: FakeRounds, last: float | None) -> None:
        super().__init__()
        self.grid, self.last = grid, last

    def job(self, submission: str, index: int) -> ObservedJob | None:
        observed = super().job(submission, index)
        assert observed is not None
        lines = next(lines for known, lines in self.grid.submissions() if known == submission)
        is_last = lines[0]["name"].startswith("cells-003")
        value = (self.last if index == 1 else 0.9) if is_last else 0.5
        return replace(observed, metrics={} if value is None else {"global_validation_top1": value})


@pytest.mark.parametrize("last", [None, float("nan"), float("inf")])
def test_a_mean_of_some_regions_is_not_the_best(grid: FakeRounds, last: float | None) -> None:
    grid.outcome = lambda job: replace(job, metrics={})
    rounds = views(grid, Partial(grid, last))
    assert [view.top1 for view in rounds] == [0.5, None, None]
    assert rounds[2].parts[1].global_top1 is None
    assert data_of(rounds) == "the data of each Region, in the mean"
    complete = views(grid, Partial(grid, 0.6))
    best = best_round(complete)
    assert best is not None
    assert best.number == 2
    assert best.top1 == pytest.approx(0.8)


def test_a_region_that_is_left_out_has_no_validation(grid: FakeRounds) -> None:
    outcome = with_metrics(0.5, 0.5, 0.5)
    grid.outcome = lambda job: failing("cells-001-1")(outcome(job))
    first = views(grid, missing={"then": "continue"})[0]
    assert [(part.region, part.top1, part.left_out) for part in first.parts] == [
        ("us-east-1", 0.25, ""),
        ("us-west-2", None, "is Failed: no capacity"),
        ("eu-west-1", 0.5, ""),  # the second model of the merge
    ]


def test_bytes_belong_to_the_region_that_reads_or_writes_the_model(grid: FakeRounds) -> None:
    first, second, _ = views(grid)
    assert [part.bytes_across for part in first.parts] == [100, 100, 0]  # the merge is in the third Region
    assert [part.bytes_across for part in second.parts] == [200, 200, 0]
    assert (first.bytes_across, second.bytes_across) == (200, 400)


@pytest.mark.parametrize("dollars", [2.0, None])
def test_an_unknown_price_makes_the_cost_unknown(grid: FakeRounds, dollars: float | None) -> None:
    first = views(grid, Observed(dollars))[0]
    assert first.dollars == (None if dollars is None else 4 * dollars)  # three trainings and the merge
    assert first.transfer_dollars is None  # the price of only one of two copies is known
