"""Spot estimate: the share of a training on spot instances is that of the benchmark, and needs time for restarts."""

import pytest

from bench import results_file
from traingrid.planner.choices import Demand, PlanLimits, Pool, problem_of
from traingrid.planner.spot_estimate import RATIOS, RESERVED_HOURS, SHARES, blended, spot_share

PRICE_OF_BENCHMARK = 0.3


def test_the_shares_are_those_of_the_benchmark() -> None:
    """Run `make bench-spot`, and copy them, if they differ."""
    rows = [row for row in results_file.read("spot")["rows"] if row["places"] == "Region"]
    costs = {row["deadline"]: row["rules"]["traingrid"]["cost"] for row in rows if row["restart_minutes"] == 12}
    shares = [(1 - costs[ratio]) / (1 - PRICE_OF_BENCHMARK) for ratio in RATIOS[1:]]
    assert list(SHARES[1:]) == pytest.approx(shares, abs=0.03)


@pytest.mark.parametrize(
    ("time", "redone", "share"),
    [
        (100.0, 0.0, 0.98),
        (12.5, 0.0, 0.83),
        (10.0 + RESERVED_HOURS, 0.0, 0.28),
        (10.0 + RESERVED_HOURS - 0.01, 0.0, 0.0),
        (13.5, 0.1, 0.83),
        (19.0, 1.0, 0.0),
        (22.5, 1.0, 0.83),
    ],
)
def test_a_job_is_expected_on_spot_instances_as_far_as_its_deadline_allows(
    time: float, redone: float, share: float
) -> None:
    assert spot_share(10.0, time, redone) == pytest.approx(share, abs=0.005)


def test_the_rest_of_the_training_costs_the_price_on_demand() -> None:
    assert blended(0.75, 1.0, 5.0) == 2.0
    assert blended(0.75, 1.0, 0.0) == 1.0, "without that price"


@pytest.mark.parametrize(("on_demand", "dollars"), [(4.0, 10 * (0.83 + 0.17 * 4)), (0.0, 10.0)])
def test_the_solver_sees_the_expected_price(on_demand: float, dollars: float) -> None:
    pool = Pool(region="a", instance_type="t", option="spot", instances=1, dollars=1.0, on_demand_dollars=on_demand)
    demand = Demand(instances=1, hours={"t": 10.0}, data={"a": 0.0}, spot=True, redone=0.0, deadline=12.5)
    problem = problem_of([demand], [pool], PlanLimits(hours=100.0))
    assert problem.dollars.tolist() == pytest.approx([0.0, dollars])
