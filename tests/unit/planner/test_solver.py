"""The solver, compared with all assignments of small random problems."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traingrid.planner.ascent import ascend
from traingrid.planner.problem import UNPLACED, PlacementProblem
from traingrid.planner.relaxation import relax
from traingrid.planner.solver import Solution, solve

AMOUNTS = st.integers(1, 20).map(float)


@st.composite
def problems(draw: st.DrawFn, most_jobs: int = 4) -> PlacementProblem:
    """Problems with up to four jobs, three pools and two windows."""
    jobs, pools, windows = draw(st.integers(1, most_jobs)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    starts, pool, cost, dollars, hours, accelerators = [0], [], [], [], [], []
    for _ in range(jobs):
        allowed = draw(st.lists(st.integers(0, pools - 1), max_size=pools, unique=True))
        pool += [UNPLACED, *allowed]
        prices = [draw(AMOUNTS) for _ in allowed]
        cost += [draw(st.sampled_from([30.0, 300.0])), *prices]
        dollars += [0.0, *prices]
        hours += [0.0, *(draw(AMOUNTS) for _ in allowed)]
        accelerators += [0.0, *(draw(st.integers(0, 8)) for _ in allowed)]
        starts.append(len(pool))
    capacity = np.cumsum([[draw(st.integers(0, 30)) for _ in range(windows)] for _ in range(pools)], axis=1)
    return PlacementProblem(
        starts=np.array(starts),
        pool=np.array(pool),
        cost=np.array(cost),
        dollars=np.array(dollars),
        hours=np.array(hours),
        accelerator_hours=np.array(accelerators, dtype=float),
        window=np.array([draw(st.integers(0, windows - 1)) for _ in range(jobs)]),
        capacity=capacity.astype(float),
        accelerators=np.cumsum([draw(st.sampled_from([np.inf, 5.0, 20.0])) for _ in range(windows)]),
        budget=draw(st.sampled_from([np.inf, 10.0, 40.0])),
    )


def keeps_all_limits(problem: PlacementProblem, chosen: tuple[int, ...]) -> bool:
    """Return True if an assignment keeps all limits; written without the product's arrays."""
    pools, windows = problem.capacity.shape
    for window in range(windows):
        due = [choice for job, choice in enumerate(chosen) if problem.window[job] <= window]
        for pool in range(pools):
            used = sum(problem.hours[choice] for choice in due if problem.pool[choice] == pool)
            if used > problem.capacity[pool, window] + 1e-6:
                return False
        if sum(problem.accelerator_hours[choice] for choice in due) > problem.accelerators[window] + 1e-6:
            return False
    return bool(sum(problem.dollars[choice] for choice in chosen) <= problem.budget + 1e-6)


def optimum(problem: PlacementProblem) -> float:
    """Return the lowest cost of all assignments that keep the limits."""
    choices = [range(problem.starts[job], problem.starts[job + 1]) for job in range(problem.jobs)]
    return min(
        float(sum(problem.cost[choice] for choice in chosen))
        for chosen in itertools.product(*choices)
        if keeps_all_limits(problem, chosen)
    )


def check(problem: PlacementProblem, found: Solution) -> None:
    jobs = [problem.job[choice] for choice in found.chosen]
    assert jobs == list(range(problem.jobs))
    assert keeps_all_limits(problem, tuple(found.chosen))
    assert found.cost == pytest.approx(sum(problem.cost[choice] for choice in found.chosen))


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_the_result_of_a_small_problem_is_the_optimum(problem: PlacementProblem) -> None:
    found = solve(problem)
    check(problem, found)
    assert found.cost == pytest.approx(optimum(problem))
    assert found.bound <= found.cost
    assert found.gap < 1e-6


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_the_optimum_is_between_the_bound_and_the_result_without_exact_solution(problem: PlacementProblem) -> None:
    found = solve(problem, exact_below=0)
    check(problem, found)
    assert found.bound <= optimum(problem) + 1e-6
    assert optimum(problem) <= found.cost + 1e-6


@settings(max_examples=25, deadline=None)
@given(problem=problems(most_jobs=12))
def test_the_exact_result_is_never_worse_than_that_of_the_prices(problem: PlacementProblem) -> None:
    exact, quick = solve(problem), solve(problem, exact_below=0)
    check(problem, exact)
    check(problem, quick)
    assert exact.cost <= quick.cost + 1e-6
    assert quick.bound <= exact.cost + 1e-6


@given(problem=problems())
@settings(max_examples=25, deadline=None)
def test_equal_problems_have_equal_results(problem: PlacementProblem) -> None:
    assert solve(problem).chosen.tolist() == solve(problem).chosen.tolist()


def test_prices_raise_the_bound_of_a_problem_whose_jobs_compete() -> None:
    """Ten jobs prefer a pool with room for five; the others pay 4 dollars more."""
    jobs = 10
    problem = PlacementProblem(
        starts=np.arange(0, 3 * jobs + 1, 3),
        pool=np.array([UNPLACED, 0, 1] * jobs),
        cost=np.array([100.0, 1.0, 5.0] * jobs),
        dollars=np.array([0.0, 1.0, 5.0] * jobs),
        hours=np.array([0.0, 1.0, 1.0] * jobs),
        accelerator_hours=np.zeros(3 * jobs),
        window=np.zeros(jobs, dtype=np.int64),
        capacity=np.array([[5.0], [100.0]]),
        accelerators=np.array([np.inf]),
        budget=np.inf,
    )
    without_prices, searched = 10.0, ascend(problem)
    assert without_prices < 25.0 < searched.cost <= 30.0
    assert relax(problem, searched).bound.cost == pytest.approx(30.0)
    assert solve(problem, exact_below=0).cost == pytest.approx(30.0)
