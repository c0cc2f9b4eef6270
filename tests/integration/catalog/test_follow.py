"""The function that follows the ledger's stream, with a ledger in localcloud, on every kind of database."""

import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import column, delete, select, table, text, update
from sqlalchemy.exc import ProgrammingError

from tests.integration.catalog.ledger_runs import describe_data, rows
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.support.ledger_items import existing, job_key
from tests.support.sample_grid import GOOD
from tests.support.strict_dsql import StrictConnection
from traingrid import names
from traingrid.catalog.database import Catalog
from traingrid.catalog.dsql import ROWS_OF_A_TRANSACTION
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.follow import Changes
from traingrid.catalog.roles import grant_privileges
from traingrid.catalog.sync import GridRecords, sync
from traingrid.catalog.tables import replicas, runs, transfers
from traingrid.cli import catalog as commands
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.job.facts import JobFacts
from traingrid.job.state import JobState
from traingrid.ledger.damage import intact
from traingrid.ledger.datasets import DatasetItem, Replica
from traingrid.ledger.items import JobItem
from traingrid.ledger.moves import MoveItem

ENDED: JobFacts = {
    "state": JobState.COMPLETED,
    "training_job": "traingrid-job",
    "training_seconds": 900,
    "billable_seconds": 720,
    "metrics": {"validation_top1": 0.75},
}
ROLE = "arn:aws:iam::123456789012:role/traingrid-follower"
Deliver = Callable[..., dict[str, int]]


@pytest.fixture
def deliver(catalog: Catalog, url: str, account: Account, monkeypatch: pytest.MonkeyPatch) -> Deliver:
    """Invokes the function, as after a cold start, with records of some keys."""
    there = account.deployment
    monkeypatch.setenv("TRAINGRID_GRID", there.grid.to_environment())
    monkeypatch.setenv("TRAINGRID_ACCOUNT", there.account)
    monkeypatch.setenv("TRAINGRID_TABLE", there.table)
    monkeypatch.setenv("TRAINGRID_MANIFEST_BUCKET", there.manifest_bucket)
    monkeypatch.setenv("TRAINGRID_IMAGES", json.dumps(dict(there.images)))
    monkeypatch.setenv("TRAINGRID_CATALOG", url.replace("dsql://", f"dsql://{names.CATALOG_FOLLOWER}@"))
    if url.startswith("dsql"):
        grant_privileges(catalog, ROLE)
    module = importlib.reload(importlib.import_module("lambda.follow_ledger"))

    def invoke(*keys: tuple[str, str]) -> dict[str, int]:
        records = [
            {
                "eventSource": "aws:dynamodb",
                "eventName": "MODIFY",
                "dynamodb": {
                    "Keys": {"submission": {"S": submission}, "item": {"S": item}},
                    "StreamViewType": "KEYS_ONLY",
                },
            }
            for submission, item in keys
        ]
        followed: dict[str, int] = module.handler({"Records": records}, None)
        return followed

    return invoke


def job(index: int) -> str:
    return f"job#{index:05d}"


def all_rows(catalog: Catalog) -> list[Any]:
    tables = {runs: ("submission", "job", "attempt"), replicas: ("dataset", "region"), transfers: ("target",)}
    with catalog.read_only() as connection:
        return [
            tuple(row)
            for table, key in tables.items()
            for row in connection.execute(select(table).order_by(*(table.c[name] for name in key)))
        ]


def test_a_changed_job_is_a_run_with_its_dataset_and_dollars(
    catalog: Catalog, account: Account, deliver: Deliver, tmp_path: Path
) -> None:
    describe_data(catalog, account, tmp_path)
    submission = account.record((HOME, OTHER))
    deliver((submission, job(0)))
    (first,) = rows(catalog, submission)
    assert (first["campaign"], first["state"], first["dollars"]) == ("oslo", "Pending", None)
    account.ledger.record_job(job_key(0, submission=submission), ENDED)
    assert deliver((submission, job(0)), (submission, job(1)))["jobs"] == 2
    first, second = rows(catalog, submission)
    assert (first["state"], first["top1"], first["dollars"]) == ("Completed", 0.75, pytest.approx(0.1))
    assert (second["state"], second["region"], second["campaign"]) == ("Pending", OTHER, "oslo")


def test_the_function_writes_the_rows_that_a_sync_writes(
    catalog: Catalog, account: Account, grid: GridRecords, deliver: Deliver, tmp_path: Path
) -> None:
    describe_data(catalog, account, tmp_path)
    submission = account.record((HOME, OTHER))
    account.ledger.record_job(job_key(0, submission=submission), ENDED)
    account.ledger.next_attempt(
        job_key(1, submission=submission), {"region": OTHER, "state": JobState.FAILED, "failure": "CapacityError"}, HOME
    )
    deliver((submission, "submission"))
    followed = rows(catalog, submission)
    sync(catalog, grid)
    assert followed == rows(catalog, submission)
    assert len(followed) == 3


def test_repeated_reordered_and_unknown_records_change_nothing(
    catalog: Catalog, account: Account, deliver: Deliver
) -> None:
    submission = account.record((HOME,))
    account.ledger.record_job(job_key(0, submission=submission), ENDED)
    deliver((submission, "submission"), (submission, job(0)))
    before = all_rows(catalog)
    unknown = [("ffffffff", job(3)), ("ffffffff", "submission"), ("datasets", "none#1"), ("moves", "s3://none/x")]
    deliver((submission, job(0)), (submission, job(0)), *unknown, (submission, "cancel#all"), ("grid", "launching"))
    assert all_rows(catalog) == before


def test_a_dataset_that_is_registered_after_its_runs_is_linked(
    catalog: Catalog, account: Account, grid: GridRecords, deliver: Deliver
) -> None:
    submission = account.record((HOME, OTHER))
    deliver((submission, job(0)), (submission, job(1)))
    assert [row["dataset"] for row in rows(catalog, submission)] == ["", ""]
    replica = Replica(uri=f"s3://{account.data(HOME)}/x", registered_at="2026-11-20T00:00:00Z")
    grid.datasets.add(
        DatasetItem(dataset="late", version="1", bytes=5, objects=1, attributes={}, replicas={HOME: replica}, rules={})
    )
    deliver(("datasets", "late#1"))
    assert [row["dataset"] for row in rows(catalog, submission)] == ["late", ""]


def test_a_copy_is_a_transfer_and_a_replica(
    catalog: Catalog, account: Account, grid: GridRecords, deliver: Deliver, tmp_path: Path
) -> None:
    describe_data(catalog, account, tmp_path)
    with catalog.engine.begin() as connection:
        connection.execute(delete(replicas).where(replicas.c.region == OTHER))
    for number in (1, 2):
        target = f"s3://{account.data(OTHER)}/copy{number}"
        item = MoveItem(
            target=target, source=f"s3://{account.data(HOME)}/x", region=OTHER, from_region=HOME, job="0a1b2c3d/0"
        )
        grid.moves.add(item)
        deliver(("moves", target))
    stored = existing(grid.moves.find(target))
    copied = MoveItem(
        **{name: getattr(stored, name) for name in stored.__slots__}
        | {"state": "copied", "bytes": 8, "missing_bytes": 8, "copied_bytes": 8}
    )
    assert grid.moves.change(stored, copied)
    deliver(("moves", target))
    with catalog.read_only() as connection:
        assert [tuple(row) for row in connection.execute(select(transfers.c.target, transfers.c.bytes))] == [
            (target, 8)
        ]
        states = connection.execute(select(replicas.c.state).where(replicas.c.source == "copy")).scalars().all()
    assert states == ["copying"]  # only the first copy of a version in a Region is its replica


def test_after_a_failure_between_two_writes_the_same_event_completes_the_change(
    catalog: Catalog, account: Account, grid: GridRecords, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = account.record((HOME,)), account.record((OTHER,))
    replica = Replica(uri=f"s3://{account.data(OTHER)}/x", registered_at="2026-11-20T00:00:00Z")
    grid.datasets.add(
        DatasetItem(dataset="cut", version="1", bytes=5, objects=1, attributes={}, replicas={OTHER: replica}, rules={})
    )
    event = [(first, job(0)), (second, job(0)), ("datasets", "cut#1")]
    write = Catalog.write
    for failing in range(3):
        left = iter(range(failing))

        def cut(self: Catalog, change: Any, left: Iterator[int] = left) -> Any:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return write(self, change)

        monkeypatch.setattr(Catalog, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            deliver(*event)
    monkeypatch.setattr(Catalog, "write", write)
    deliver(*event)
    assert [(row["submission"], row["dataset"]) for row in rows(catalog, first) + rows(catalog, second)] == [
        (first, ""),
        (second, "cut"),
    ]


@pytest.mark.parametrize(
    ("version", "problem"),
    [("0001", "of an earlier version of traingrid"), ("9999", "of a newer version of traingrid")],
)
def test_tables_of_another_version_are_refused_and_not_migrated(
    catalog: Catalog, account: Account, deliver: Deliver, version: str, problem: str
) -> None:
    with catalog.engine.begin() as connection:
        connection.execute(update(table("alembic_version", column("version_num"))).values(version_num=version))
    submission = account.record((HOME,))
    with pytest.raises(TraingridError, match=problem):
        deliver((submission, job(0)))
    assert rows(catalog, submission) == []


@pytest.mark.parametrize("url", ["dsql"], indirect=True)
def test_an_older_reading_of_the_ledger_does_not_replace_a_newer_one(
    catalog: Catalog, account: Account, grid: GridRecords, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = account.record((HOME,))
    read = grid.ledger.jobs
    reads = []

    def jobs(wanted: str) -> list[JobItem]:
        found = list(intact(read(wanted)))
        if wanted == submission:
            reads.append(found)
            if len(reads) == 1:  # while the sync has read the ledger, but not written
                account.ledger.record_job(job_key(0, submission=submission), ENDED)
                deliver((submission, job(0)))
        return found

    monkeypatch.setattr(grid.ledger, "jobs", jobs)
    sync(catalog, grid)
    assert [row["state"] for row in rows(catalog, submission)] == ["Completed"]
    assert len(reads) == 2


@pytest.mark.parametrize("url", ["dsql"], indirect=True)
def test_a_group_of_jobs_is_one_transaction(catalog: Catalog, account: Account, deliver: Deliver) -> None:
    submission = account.record((HOME,) * 50)
    StrictConnection.largest = 0
    deliver(*((submission, job(index)) for index in range(50)))
    deliver((submission, "submission"))
    assert len(rows(catalog, submission)) == 50
    assert 50 < StrictConnection.largest <= ROWS_OF_A_TRANSACTION


def test_items_that_the_catalog_does_not_show_are_left_out() -> None:
    changes = Changes.of(
        [("0a1b2c3d", "cancel#all"), ("0a1b2c3d", "array#retry-1"), ("grid", "launching"), ("shortages", "x")]
    )
    assert not any((changes.jobs, changes.submissions, changes.datasets, changes.moves))


@pytest.mark.parametrize("url", ["dsql"], indirect=True)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO prices VALUES ('r', 't', 'spot', 0.1, '2026-11-01', '')",
        "DELETE FROM replicas",
        "UPDATE campaigns SET description = 'x'",
        "SELECT * FROM synced_submissions",
        "UPDATE alembic_version SET version_num = '9999'",
        "CREATE TABLE mine (a TEXT)",
        "DROP TABLE runs",
    ],
)
def test_the_functions_role_may_only_write_what_it_follows(url: str, catalog: Catalog, statement: str) -> None:
    for _ in range(2):  # again after a migration
        grant_privileges(catalog, ROLE)
    role = Catalog(catalog_url(url.replace("dsql://", f"dsql://{names.CATALOG_FOLLOWER}@")))
    with role.engine.connect() as connection, pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
        connection.execute(text(statement))


@pytest.mark.parametrize("url", ["dsql"], indirect=True)
def test_the_iam_role_of_the_function_is_granted_once(catalog: Catalog) -> None:
    role = "arn:aws:iam::210987654321:role/traingrid-follower"
    for _ in range(2):
        grant_privileges(catalog, role)
    with catalog.read_only() as connection:
        found = connection.execute(
            text("SELECT pg_role_name FROM sys.iam_pg_role_mappings WHERE arn = :arn"), {"arn": role}
        )
        assert found.scalars().all() == [names.CATALOG_FOLLOWER]


@pytest.mark.parametrize("url", ["dsql"], indirect=True)
@pytest.mark.parametrize("is_of_the_grid", [True, False])
def test_init_grants_the_role_only_in_the_grids_own_cluster(
    catalog: Catalog,
    url: str,
    account: Account,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_of_the_grid: bool,
) -> None:
    name = f"init{is_of_the_grid}".lower()
    grid = account.deployment.grid.model_copy(update={"name": name})
    (tmp_path / "grid.yaml").write_text(f"{GOOD}catalog: dsql\n")
    monkeypatch.setattr(commands, "find_cluster", lambda _: url.removeprefix("dsql://"))
    monkeypatch.setattr(commands, "find_deployment", lambda _: replace(account.deployment, grid=grid))
    words = [] if is_of_the_grid else ["--catalog", url]
    result = CliRunner().invoke(cli, ["--grid", str(tmp_path / "grid.yaml"), "catalog", "init", *words])
    assert (result.exit_code, "already has the tables" in result.output) == (0, True)
    granted = text("SELECT count(*) FROM sys.iam_pg_role_mappings WHERE arn = :arn")
    with catalog.read_only() as connection:
        found = connection.execute(granted, {"arn": f"arn:aws:iam::123456789012:role/{name}-follower"}).scalar()
    assert found == int(is_of_the_grid)
