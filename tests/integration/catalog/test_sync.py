"""`traingrid catalog sync` with a ledger in localcloud, on SQLite and on a real PostgreSQL."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Connection, select, update

from tests.integration.catalog.ledger_runs import describe_data, rows
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import wait_until
from tests.support.ledger_items import job_key
from tests.support.sample_job import sample_job
from traingrid.catalog.batches import upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.import_rows import import_file
from traingrid.catalog.links import price_runs
from traingrid.catalog.run_rows import _line_facts
from traingrid.catalog.sync import GridRecords, rebuild, sync
from traingrid.catalog.tables import campaigns, datasets, replicas, runs, transfers
from traingrid.cli import catalog as commands
from traingrid.cli.main import cli
from traingrid.deploy.prices import GIGABYTE
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.job.facts import JobFacts
from traingrid.job.state import JobState
from traingrid.ledger import ledger, moves
from traingrid.ledger.damage import Damaged, intact
from traingrid.ledger.datasets import DatasetItem, Replica
from traingrid.ledger.items import JobItem, RecordedAttempt
from traingrid.ledger.moves import MoveItem
from traingrid.ledger.submission_item import Array
from traingrid.ledger.timestamps import timestamp
from traingrid.ledger.user_requests import CANCEL_ALL

ENDED: JobFacts = {
    "state": JobState.COMPLETED,
    "training_job": "traingrid-job",
    "training_seconds": 900,
    "billable_seconds": 720,
    "artifact": "s3://out/model.tar.gz",
    "metrics": {"validation_top1": 0.75, "epoch": 3.0},
}


def test_runs_have_their_dataset_results_and_dollars(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path
) -> None:
    describe_data(catalog, account, tmp_path)
    submission = account.record((HOME, OTHER))
    account.ledger.record_job(job_key(0, submission=submission), ENDED)
    sync(catalog, grid)
    first, second = rows(catalog, submission)
    expected = {
        "campaign": "oslo",
        "dataset": "day1",
        "version": "2",
        "region": HOME,
        "uri": f"s3://{account.data(HOME)}/x/",
        "instance_type": "ml.m5.large",
        "instances": 1,
        "purchase_option": "on_demand",
        "state": "Completed",
        "seconds": 900,
        "billable_seconds": 720,
        "top1": 0.75,
        "metrics": {"validation_top1": 0.75, "epoch": 3.0},
        "artifact": "s3://out/model.tar.gz",
    }
    assert {name: first[name] for name in expected} == expected
    assert first["dollars"] == first["actual_dollars"] == pytest.approx(0.1)
    assert (second["state"], second["region"], second["top1"], second["dollars"]) == ("Pending", OTHER, None, None)
    assert second["opened_at"].tzinfo


def test_only_submissions_that_changed_are_read_again(
    catalog: Catalog, grid: GridRecords, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = grid.ledger.jobs

    def jobs(submission: str) -> Iterator[JobItem | Damaged]:
        asked.append(submission)
        return read(submission)

    monkeypatch.setattr(grid.ledger, "jobs", jobs)
    submission = account.record((HOME,))
    for expected in (True, True, False):  # new, open, ended
        asked.clear()
        sync(catalog, grid)
        assert (submission in asked) == expected
        account.ledger.record_job(job_key(0, submission=submission), ENDED)
    monkeypatch.setattr(ledger, "now", lambda: timestamp(time.time() + 60))
    account.ledger.record_submitted(submission, "b", [Array(batch_job="b", file="jobs.jsonl", count=1)])
    sync(catalog, grid)
    assert submission in asked


def test_every_attempt_is_a_run(catalog: Catalog, grid: GridRecords, account: Account) -> None:
    submission = account.record((HOME,))
    key = job_key(0, submission=submission)
    outcome = {"region": HOME, "state": JobState.FAILED, "failure": "CapacityError", "billable_seconds": 60}
    assert account.ledger.next_attempt(key, outcome, OTHER)  # type: ignore[arg-type]  # a literal of the same form
    account.ledger.record_job(job_key(0, 2, submission), ENDED)
    sync(catalog, grid)
    first, second = rows(catalog, submission)
    assert (first["attempt"], first["region"], first["state"], first["failure"]) == (1, HOME, "Failed", "CapacityError")
    assert (first["top1"], first["billable_seconds"]) == (None, 60)
    assert (second["attempt"], second["region"], second["state"], second["top1"]) == (2, OTHER, "Completed", 0.75)


def test_a_job_that_an_event_ends_has_the_reason_of_its_cancel(
    catalog: Catalog, grid: GridRecords, account: Account
) -> None:
    """The event of the stopped training job arrives before the reason, which an ended item does not accept."""
    submission = account.record((HOME, OTHER, HOME))
    stopped: JobFacts = {"state": JobState.STOPPED, "failure": "stopped_by_user"}
    account.ledger.record_job(job_key(1, submission=submission), ENDED)
    reason = "the budget of $100.00 is reached: $102.00 spent"
    account.ledger.request_cancel(submission, CANCEL_ALL, {"by": "the reconciler", "reason": reason})
    account.ledger.record_job(job_key(0, submission=submission), stopped)
    assert not account.ledger.record_job(job_key(0, submission=submission), {"reason": reason})
    sync(catalog, grid)
    found = {row["job"]: (row["state"], row["reason"]) for row in rows(catalog, submission)}
    assert found[0] == ("Stopped", f"Cancelled by the reconciler: {reason}")
    assert found[1] == ("Completed", "")


def test_a_job_that_was_stopped_before_a_cancel_does_not_have_its_reason(
    catalog: Catalog, grid: GridRecords, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = account.record((HOME,))
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "now", lambda: "2026-01-01T00:00:00Z")
        account.ledger.record_job(job_key(0, submission=submission), {"state": JobState.STOPPED})
    account.ledger.request_cancel(submission, CANCEL_ALL, {"by": "the reconciler", "reason": "the budget"})
    sync(catalog, grid)
    assert [row["reason"] for row in rows(catalog, submission)] == [""]


def test_a_run_on_a_training_plan_costs_nothing_more(catalog: Catalog) -> None:
    key = {"submission": "0" * 8, "job": 0, "attempt": 1, "name": "a", "region": HOME, "state": "Completed"}
    run = {**key, "instance_type": "ml.p5.48xlarge", "instances": 2, "billable_seconds": 60}
    with catalog.engine.begin() as connection:
        upsert(connection, runs, [{**run, "purchase_option": "training_plan"}])
        price_runs(connection)
        (row,) = connection.execute(select(runs.c.actual_dollars, runs.c.dollars))
    assert tuple(row) == (0.0, 0.0)


def test_a_job_on_a_training_plan_has_no_other_purchase_option() -> None:
    job = sample_job(HOME).model_copy(update={"training_plan": "arn:aws:sagemaker:us-east-1:1:training-plan/a"})
    attempt = RecordedAttempt(attempt=1, region=HOME, state=JobState.COMPLETED)
    assert _line_facts(job, attempt)["purchase_option"] == "training_plan"


@pytest.mark.parametrize(("on_demand", "option"), [(False, "spot"), (True, "on_demand")])
def test_a_spot_job_that_continues_on_demand_has_that_price(on_demand: bool, option: str) -> None:
    job = sample_job(HOME).model_copy(update={"spot": True, "max_wait_seconds": 100})
    attempt = RecordedAttempt(attempt=2, region=HOME, state=JobState.COMPLETED, on_demand=on_demand)
    assert _line_facts(job, attempt)["purchase_option"] == option


def test_data_and_prices_may_arrive_after_the_runs(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path
) -> None:
    submission = account.record((HOME,))
    account.ledger.record_job(job_key(0, submission=submission), ENDED)
    sync(catalog, grid)
    assert [(row["dataset"], row["dollars"]) for row in rows(catalog, submission)] == [("", None)]
    describe_data(catalog, account, tmp_path)
    sync(catalog, grid)
    assert [(row["dataset"], row["dollars"]) for row in rows(catalog, submission)] == [("day1", pytest.approx(0.1))]


def test_a_rebuild_gives_the_same_rows_and_keeps_what_was_imported(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path
) -> None:
    describe_data(catalog, account, tmp_path)
    submission = account.record((HOME, OTHER))
    account.ledger.record_job(job_key(1, submission=submission), ENDED)
    sync(catalog, grid)
    before = rows(catalog, submission)
    result = rebuild(catalog, grid)
    assert rows(catalog, submission) == before
    assert before[1]["campaign"] == "oslo"
    assert result.submissions == len(list(grid.ledger.submissions()))


def test_the_commands_sync_and_a_manifest_is_generated_from_current_runs(
    *, catalog: Catalog, url: str, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_data(catalog, account, tmp_path)
    monkeypatch.setattr(commands, "find_deployment", lambda _grid: account.deployment)
    monkeypatch.setenv("TRAINGRID_CATALOG", url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").touch()
    untrained = ["manifest", "--query", "untrained", "--param", "campaign=oslo"]
    assert CliRunner().invoke(cli, [*untrained, "--no-sync"]).output.count("\n") == 2
    submission = account.record((HOME,))
    assert "The query returns no rows" in str(CliRunner().invoke(cli, untrained).exception)
    assert " of " in CliRunner().invoke(cli, ["catalog", "sync"]).output
    assert CliRunner().invoke(cli, ["catalog", "rebuild"]).output.endswith(" submissions\n")
    assert [row["state"] for row in rows(catalog, submission)] == ["Pending"]


def test_a_grid_that_is_not_deployed_names_the_way_without_it(
    catalog: Catalog, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_grid: Path) -> Deployment:
        raise TraingridError("The grid demo is not deployed.", "Deploy it: npx cdk deploy --all.")

    monkeypatch.setattr(commands, "find_deployment", missing)
    monkeypatch.setenv("TRAINGRID_CATALOG", url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").touch()
    error = CliRunner().invoke(cli, ["manifest", "--query", "newest"]).exception
    assert isinstance(error, TraingridError)
    assert error.next_step == "Deploy it: npx cdk deploy --all. To use the catalog as it is, add --no-sync."


def test_registered_datasets_are_copied_once_and_keep_their_state(
    catalog: Catalog, grid: GridRecords, account: Account
) -> None:
    uri = f"s3://{account.data(OTHER)}/registered"
    first = DatasetItem(
        dataset="registered",
        version="1",
        bytes=5_000_000_000,
        objects=3,
        campaign="bergen",
        attributes={"sensor": "lidar"},
        replicas={OTHER: Replica(uri=uri, registered_at="2026-11-01T10:00:00+00:00")},
        rules={},
    )
    assert grid.datasets.add(first) or grid.datasets.find("registered", "1")
    assert sync(catalog, grid).replicas >= 1
    with catalog.read_only() as connection:
        (copied,) = connection.execute(select(replicas).where(replicas.c.dataset == "registered"))
        (described,) = connection.execute(select(datasets).where(datasets.c.dataset == "registered"))
        (campaign,) = connection.execute(select(campaigns).where(campaigns.c.campaign == "bergen"))
    assert (copied.region, copied.uri, copied.bytes, copied.state) == (OTHER, uri, 5_000_000_000, "available")
    assert (described.campaign, described.attributes, described.objects) == ("bergen", {"sensor": "lidar"}, 3)
    assert campaign.hyperparameters == {}

    def remove(connection: Connection) -> None:
        connection.execute(update(replicas).where(replicas.c.dataset == "registered").values(state="removed"))
        connection.execute(update(campaigns).where(campaigns.c.campaign == "bergen").values(hyperparameters={"a": "1"}))

    catalog.write(remove)
    assert sync(catalog, grid).replicas == 0
    with catalog.read_only() as connection:
        assert (
            connection.execute(select(replicas.c.state).where(replicas.c.dataset == "registered")).scalar() == "removed"
        )
    rebuild(catalog, grid)
    with catalog.read_only() as connection:
        state = connection.execute(select(replicas.c.state).where(replicas.c.dataset == "registered")).scalar()
        kept = connection.execute(select(campaigns.c.hyperparameters).where(campaigns.c.campaign == "bergen")).scalar()
    assert (state, kept) == ("available", {"a": "1"})


def test_a_rebuild_keeps_imported_datasets(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path
) -> None:
    describe_data(catalog, account, tmp_path)
    rebuild(catalog, grid)
    with catalog.read_only() as connection:
        names = set(connection.execute(select(datasets.c.dataset)).scalars())
    assert {"day1", "all"} <= names


def test_a_run_has_the_dollars_of_its_plan_and_its_recipe(
    catalog: Catalog, grid: GridRecords, account: Account
) -> None:
    head = "region,s3_uri,hp.seconds,estimated_dollars\n"
    lines = "".join(
        f"{region},s3://{account.data(region)}/x,0,{price}\n" for region, price in ((HOME, 12.5), (OTHER, 7))
    )
    submission = account.accept(head + lines)
    wait_until(lambda: len(list(account.ledger.jobs(submission))) == 2)
    sync(catalog, grid)
    first, second = rows(catalog, submission)
    assert (first["estimated_dollars"], second["estimated_dollars"]) == (12.5, 7.0)
    assert first["recipe"] == second["recipe"] != ""


def move(account: Account, target: str, job: str, **changes: Any) -> MoveItem:
    """Return a copy from a dataset's replica in the home Region to the other Region."""
    source = f"s3://{account.data(HOME)}/x"
    facts = {"source": source, "region": OTHER, "from_region": HOME, "state": "copied", "objects": 3, **changes}
    return MoveItem(target=f"s3://{account.data(OTHER)}/{target}", job=job, **{"bytes": 3 * GIGABYTE, **facts})


def copied(catalog: Catalog, target: str) -> list[tuple[Any, ...]]:
    columns = (replicas.c.dataset, replicas.c.version, replicas.c.region, replicas.c.state, replicas.c.source)
    with catalog.read_only() as connection:
        found = connection.execute(select(*columns).where(replicas.c.uri.like(f"%/{target}")))
        return [tuple(row) for row in found]


def paid(catalog: Catalog, target: str) -> dict[tuple[str, int], tuple[int, Any]]:
    """Return bytes and dollars of a copy by job."""
    with catalog.read_only() as connection:
        found = connection.execute(select(transfers).where(transfers.c.target.like(f"%/{target}")))
        return {(row.submission, row.job): (row.bytes, row.dollars) for row in found}


def describe_source(catalog: Catalog, account: Account, folder: Path) -> None:
    """Import the source of copies as the only replica of a dataset version."""
    files = {
        "datasets": "dataset,version,campaign\nday1,2,oslo\n",
        "replicas": f"dataset,version,region,uri\nday1,2,{HOME},s3://{account.data(HOME)}/x/\n",
    }
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content)
        import_file(catalog, name, folder / f"{name}.csv")


def price(catalog: Catalog, folder: Path, dollars: float) -> None:
    (folder / "p.csv").write_text(f"from_region,to_region,dollars_per_gb,as_of\n{HOME},{OTHER},{dollars},2026-11-01\n")
    import_file(catalog, "transfer_prices", folder / "p.csv")


def test_transfers_of_copies_have_the_dollars_of_the_first_known_price(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path
) -> None:
    target = f"copies/{tmp_path.name}"
    submission = account.record((OTHER, OTHER))
    made = move(account, target, f"{submission}/1", missing_bytes=2 * GIGABYTE, earlier={f"{submission}/0": GIGABYTE})
    assert grid.moves.add(made)
    sync(catalog, grid)
    assert paid(catalog, target) == {(submission, 0): (GIGABYTE, None), (submission, 1): (2 * GIGABYTE, None)}
    for dollars in (0.02, 0.5):
        price(catalog, tmp_path, dollars)
        sync(catalog, grid)
        expected = {
            (submission, 0): (GIGABYTE, pytest.approx(0.02)),
            (submission, 1): (2 * GIGABYTE, pytest.approx(0.04)),
        }
        assert paid(catalog, target) == expected
    rebuild(catalog, grid)
    assert paid(catalog, target)[submission, 1] == (2 * GIGABYTE, pytest.approx(1.0)), "at the present price"


def test_a_copy_of_a_known_replica_is_a_replica_until_it_is_removed(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"copies/{tmp_path.name}"
    for other in intact(grid.moves.all()):  # of earlier tests, which share the account
        assert grid.moves.change(other, replace(other, state="pruned"))
    made = move(account, target, "0123abcd/0", state="copying")
    grid.moves.add(made)
    sync(catalog, grid)
    assert copied(catalog, target) == [], "its source is not known"
    describe_source(catalog, account, tmp_path)
    for day, state, expected in (
        (1, "copying", "copying"),
        (2, "copied", "available"),
        (3, "pruning", "removed"),
        (4, "pruned", "removed"),
        (5, "copied", "available"),
    ):
        monkeypatch.setattr(moves, "now", lambda day=day: timestamp(time.time() + 60 * day))
        present = grid.moves.find(made.target)
        assert present is not None
        assert grid.moves.change(present, replace(present, state=state))  # type: ignore[arg-type]  # a state
        sync(catalog, grid)
        assert copied(catalog, target) == [("day1", "2", OTHER, expected, "copy")]
    rebuild(catalog, grid)
    assert copied(catalog, target) == [("day1", "2", OTHER, "available", "copy")]


def test_a_copy_does_not_replace_another_replica_of_its_region(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path
) -> None:
    describe_data(catalog, account, tmp_path)
    target = f"copies/{tmp_path.name}"
    assert grid.moves.add(move(account, target, "0123abcd/0"))
    sync(catalog, grid)
    assert copied(catalog, target) == []
    assert copied(catalog, "x") == [
        ("day1", "2", HOME, "available", "import"),
        ("day1", "2", OTHER, "available", "import"),
    ]


def test_a_run_in_a_copy_has_the_dataset_of_the_source(
    catalog: Catalog, grid: GridRecords, account: Account, tmp_path: Path
) -> None:
    for other in intact(grid.moves.all()):
        assert grid.moves.change(other, replace(other, state="pruned"))
    describe_source(catalog, account, tmp_path)
    submission = account.record((OTHER,))  # its data is in the folder x
    present = move(account, "x", f"{submission}/0", missing_bytes=GIGABYTE)
    known = grid.moves.find(present.target)
    assert grid.moves.add(present) if known is None else grid.moves.change(known, present)
    sync(catalog, grid)
    (row,) = rows(catalog, submission)
    assert (row["dataset"], row["version"], row["campaign"]) == ("day1", "2", "oslo")
