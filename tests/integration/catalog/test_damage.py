"""Damage: an item of the ledger that cannot be read is reported by its name, and the catalog gets all others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.catalog.ledger_runs import describe_data, rows
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.support.ledger_items import existing, job_key
from traingrid import names
from traingrid.aws.dynamodb import Table
from traingrid.catalog.database import Catalog
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.follow import Changes, follow
from traingrid.catalog.sync import GridRecords, rebuild
from traingrid.job.state import JobState
from traingrid.ledger.datasets import DatasetItem, Replica
from traingrid.ledger.moves import MoveItem

KEYS = {"submission", "item"}
AT = "2026-11-20T10:00:00Z"
KINDS = ["job", "submission", "cancel", "dataset", "move"]


@pytest.fixture
def catalog(account: Account, tmp_path: Path) -> Catalog:
    made = Catalog(catalog_url(f"sqlite:///{tmp_path}/catalog.db"))
    made.create()
    describe_data(made, account, tmp_path)
    return made


@pytest.fixture
def table(account: Account) -> Table:
    return Table(account.deployment.table, HOME)


@pytest.fixture
def submission(account: Account, grid: GridRecords) -> str:
    """A submission with a job that has ended, and with a cancel, a dataset and a copy in its grid."""
    submission = account.record((HOME, OTHER))
    key = job_key(0, submission=submission)
    account.ledger.next_attempt(key, {"region": OTHER, "state": JobState.FAILED, "failure": "capacity"}, HOME)
    ended = {"state": JobState.STOPPED, "artifact": "s3://out/m", "training_seconds": 9, "metrics": {"loss": 1.5}}
    account.ledger.record_job(job_key(0, 2, submission), ended)  # type: ignore[arg-type]  # a literal of this form
    account.ledger.request_cancel(submission, "all", {"by": "Ada", "reason": "no"})
    replica = Replica(uri=f"s3://{account.data(HOME)}/new", registered_at=AT)
    grid.datasets.add(
        DatasetItem(
            dataset="new", version="1", bytes=9, objects=1, attributes={"a": 1}, replicas={HOME: replica}, rules={}
        )
    )
    grid.moves.add(
        MoveItem(
            target=f"s3://{account.data(OTHER)}/copy",
            source=f"s3://{account.data(HOME)}/new",
            region=OTHER,
            from_region=HOME,
            job=f"{submission}/0",
            state="copied",
            bytes=9,
            missing_bytes=9,
            copied_bytes=9,
            earlier={f"{submission}/1": 3},
        )
    )
    return submission


def items(table: Table, account: Account, submission: str, kind: str) -> dict[str, Any]:
    """Return the stored item of a kind."""
    found = {
        "job": (submission, "job#00000"),
        "submission": (submission, "submission"),
        "cancel": (submission, "cancel#all"),
        "dataset": (names.DATASETS, "new#1"),
        "move": (names.MOVES, f"s3://{account.data(OTHER)}/copy"),
    }
    return existing(table.get(*found[kind]))


def damaged_items(stored: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an item without each of its attributes in turn, and with texts that are not those of traingrid."""
    for name in sorted(stored.keys() - KEYS):
        yield f"without {name}", {field: value for field, value in stored.items() if field != name}
    for name, value in {"job": "x", "state": "melted", "earlier": {"x": 1}, "replicas": {}, "created_at": "x"}.items():
        if name in stored:
            yield f"{name} {value}", {**stored, name: value}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", ["sync", "follow"])
def test_a_damaged_item_is_named_and_the_others_are_copied(  # noqa: PLR0917  # the fixtures
    catalog: Catalog,
    account: Account,
    grid: GridRecords,
    table: Table,
    submission: str,
    kind: str,
    reader: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other, stored = account.record((HOME,)), items(table, account, submission, kind)
    problems = []
    for what, item in damaged_items(stored):
        table.put(item)
        caplog.clear()
        try:
            copy(catalog, grid, reader, [(item["submission"], item["item"]), (other, "job#00000")])
        except Exception as error:  # noqa: BLE001  # all are listed
            problems.append(f"{what}: {error!r}")
            continue
        finally:
            table.put(stored)
        if len(rows(catalog, other)) != 1:
            problems.append(f"{what}: the other submission has no row")
        if "cannot be read" in caplog.text or "The ledger's item" in caplog.text:
            assert repr(item["item"]) in caplog.text
    assert problems == []


def copy(catalog: Catalog, grid: GridRecords, reader: str, keys: list[tuple[str, str]]) -> None:
    if reader == "sync":
        rebuild(catalog, grid)
    else:
        follow(catalog, grid, Changes.of(keys))


def test_a_key_that_is_no_job_is_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    changes = Changes.of([("0123abcd", "job#x"), ("0123abcd", "job#00001")])
    assert changes.jobs == {"0123abcd": {1}}
    assert "item 'job#x'" in caplog.text
