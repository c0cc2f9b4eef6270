"""A small share of `make faults ENGINE=eks`, and proof that these experiments can fail."""

from collections.abc import Callable, Iterator

import pytest

from verification.faults import disturbed_clusters, failover, frozen, kills
from verification.faults.deployment import faulty_grid
from verification.faults.experiments import experiments, sabotages
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.table import Outcome

Experiment = Callable[[FaultyGrid], Outcome]

HOLDS: dict[str, Experiment] = {
    "children are killed at their calls": lambda grid: kills.of_children(grid, "fresh", kills=6),
    "lines move to SageMaker while children are killed": lambda grid: failover.failover(grid, lines=4),
    "a person deletes objects": lambda grid: disturbed_clusters.deleted(grid, lines=3),
    "children are frozen while their lines are retried": lambda grid: frozen.frozen(grid, lines=8),
}
SABOTAGES: dict[str, Experiment] = {
    "finalizer": lambda grid: disturbed_clusters.deleted_before_attach(grid, lines=2),
    "no pods left": lambda grid: disturbed_clusters.stopped_completely(grid, lines=2),
}


@pytest.fixture(scope="module")
def clusters(without_cli: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyGrid]:
    """Deploy a grid with a cluster in every Region."""
    with faulty_grid(tmp_path_factory.mktemp("clusters"), seed=1, engine="eks") as deployed:
        yield deployed


@pytest.mark.parametrize("what", HOLDS)
def test_invariants_hold_in_clusters_when(clusters: FaultyGrid, what: str) -> None:
    assert HOLDS[what](clusters).violations == []


@pytest.mark.parametrize("safeguard", SABOTAGES)
def test_the_suite_detects_a_missing_safeguard_of_clusters(clusters: FaultyGrid, safeguard: str) -> None:
    with clusters.sabotaged(safeguard):
        assert SABOTAGES[safeguard](clusters).violations


def test_each_engine_has_its_experiments() -> None:
    of_sagemaker, of_eks = experiments(1), experiments(1, "eks")
    assert {"E1 children: fresh", "E4 state machine", "E13 expired credentials"} <= {*of_sagemaker} & {*of_eks}
    assert "E27 failover to SageMaker" not in of_sagemaker
    assert "finalizer" in sabotages(1, "eks")
    assert "finalizer" not in sabotages(1)
