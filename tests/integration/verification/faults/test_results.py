"""Results of the fault suite: the committed file, its Markdown tables and the merging of runs."""

import json
from pathlib import Path

import pytest

from traingrid.audit.violation import Violation
from verification.faults.engine import ENGINES, EngineName
from verification.faults.experiments import experiments
from verification.faults.report import markdown
from verification.faults.results import RESULTS, Results, results_of
from verification.faults.table import Outcome, measured

DOCUMENT = Path(__file__).resolve().parents[4] / "docs/reliability.md"
LOST = Violation(invariant="I1", kind="lost", submission="", what="one is gone")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_reliability_page_contains_the_committed_results(engine: EngineName) -> None:
    assert markdown(json.loads(results_of(engine).read_text()), engine) in DOCUMENT.read_text()


@pytest.mark.parametrize("engine", ENGINES)
def test_committed_results_have_full_volume_and_no_violations(engine: EngineName) -> None:
    kept = json.loads(results_of(engine).read_text())
    assert {row["share"] for row in kept["rows"] + kept["sabotage"]} == {1.0}
    assert {row["violations"] for row in kept["rows"]} == {0}
    assert all(row["violations"] for row in kept["sabotage"])
    assert {row["experiment"] for row in kept["rows"]} <= {*experiments(1, engine)}


def test_the_tables_list_experiments_without_results() -> None:
    kept = json.loads(RESULTS.read_text())
    left, gone = kept["rows"][1:], kept["rows"][0]["experiment"]
    listed = markdown({**kept, "rows": left}).partition("Not run at full volume yet: ")[2].partition(".\n")[0]
    assert gone in listed.split("; ")
    assert f"| {gone} |" not in markdown({**kept, "rows": left})


def test_a_run_of_one_experiment_replaces_only_its_row(tmp_path: Path) -> None:
    file, order = tmp_path / "faults.json", ["E1", "E2"]
    for name, volume in (("E2", "two"), ("E1", "one"), ("E2", "two again")):
        run = Results()
        run.add(measured(name, 7, lambda volume=volume: Outcome(volume=volume, violations=[])), 1.0)  # type: ignore[misc]  # mypy infers no type for this lambda
        run.write(file, order)
    written = json.loads(file.read_text())["rows"]
    assert [(row["experiment"], row["volume"]) for row in written] == [("E1", "one"), ("E2", "two again")]
    assert all(row["commit"] and row["ended_at"] and row["account"] == "young" for row in written)


def test_the_summary_counts_all_rows_and_contains_the_seed() -> None:
    run = Results()
    run.add(measured("E1", 7, lambda: Outcome(volume="1", violations=[])), 1.0)
    assert (run.good, run.sentence) == (True, "0 duplicates, 0 orphans, 0 lost, 0 violations in 1 experiments (seed 7)")
    run.add(measured("E2", 7, lambda: Outcome(volume="1", violations=[LOST])), 1.0)
    assert (run.good, run.sentence) == (
        False,
        "0 duplicates, 0 orphans, 1 lost, 1 violations in 2 experiments (seed 7)",
    )


def test_a_sabotage_without_violations_fails_the_suite() -> None:
    run = Results()
    run.add(measured("without attach", 7, lambda: Outcome(volume="1", violations=[])), 1.0, sabotaged=True)
    assert not run.good
