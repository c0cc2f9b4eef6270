"""Capacity: the simulation of `make bench-capacity` with few lines; it can detect a missed aim."""

import dataclasses

from bench import capacity
from traingrid.ledger.ledger import Ledger

FEW = dataclasses.replace(capacity.SCENARIOS[0], lines=6)


def test_children_that_share_shortages_request_fewer_training_jobs() -> None:
    runs = {"without": capacity.play(FEW, capacity.ForgetfulLedger), "with": capacity.play(FEW, Ledger)}
    assert {run.completed for run in runs.values()} == {6}
    assert {run.calls - run.in_vain for run in runs.values()} == {6}
    assert runs["with"].calls < runs["without"].calls / 2
    assert all(row.met for row in capacity.results({"few": runs}))
    swapped = {"without": runs["with"], "with": runs["without"]}
    assert not all(row.met for row in capacity.results({"few": swapped}))


def test_lines_with_a_replica_do_not_wait_for_the_region_without_capacity() -> None:
    roaming = dataclasses.replace(FEW, replicas=True, children_per_second=0.02)
    run = capacity.play(roaming, Ledger)
    assert (run.completed, run.failed) == (6, 0)
    assert run.in_vain < 6
