"""Changes under the limits of Aurora DSQL, and the checks of these limits."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, func, select, text, update
from sqlalchemy.exc import DBAPIError

from bench.postgres_server import PostgresServer
from tests.support.strict_dsql import ROWS, StrictConnection
from traingrid.catalog.batches import delete_rows, upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.dsql import ROWS_OF_A_TRANSACTION
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.import_rows import import_file
from traingrid.catalog.links import link_datasets, price_runs
from traingrid.catalog.tables import campaigns, prices, replicas, runs
from traingrid.errors import TraingridError

MANY = 3_500


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the catalog waited for."""
    return []


@pytest.fixture
def cluster(dsql: PostgresServer, waits: list[float]) -> Iterator[Catalog]:
    """A catalog in Aurora DSQL."""
    schema = dsql.new_schema().rpartition("%3D")[2]
    catalog = Catalog(catalog_url(f"dsql://{schema}.dsql.us-east-1.on.aws"), sleep=waits.append)
    catalog.create()
    StrictConnection.largest = 0
    yield catalog
    StrictConnection.conflicts = 0


def number(catalog: Catalog, table: Any) -> int:
    with catalog.read_only() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar() or 0)


def many_runs() -> list[dict[str, Any]]:
    ran = {"submission": "0a1b2c3d", "attempt": 1, "region": "us-east-1", "instance_type": "ml.g5.xlarge"}
    ran |= {"instances": 2, "billable_seconds": 3600, "uri": "s3://data/day1/images"}
    return [{**ran, "job": number} for number in range(MANY)]


def test_a_file_of_many_rows_is_imported_in_several_transactions(cluster: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "campaigns.csv"
    file.write_text("campaign\n" + "".join(f"c{number}\n" for number in range(MANY)))
    for _ in range(2):
        assert import_file(cluster, "campaigns", file) == MANY
        assert number(cluster, campaigns) == MANY
    assert 0 < StrictConnection.largest <= ROWS_OF_A_TRANSACTION


def test_many_runs_are_linked_priced_and_deleted_in_several_transactions(cluster: Catalog) -> None:
    price = {"region": "us-east-1", "instance_type": "ml.g5.xlarge", "purchase_option": "on_demand"}
    replica = {"dataset": "day1", "version": "1", "region": "us-east-1", "uri": "s3://data/day1"}

    def fill(connection: Connection) -> None:
        upsert(connection, prices, [{**price, "dollars_per_hour": 1.5, "as_of": func.current_date()}])
        upsert(connection, replicas, [replica])
        upsert(connection, runs, many_runs())

    cluster.write(fill)
    cluster.write(link_datasets)
    cluster.write(price_runs)
    with cluster.read_only() as connection:
        found = connection.execute(
            select(runs.c.dataset, runs.c.dollars, func.count()).group_by(runs.c.dataset, runs.c.dollars)
        )
        assert [tuple(row) for row in found] == [("day1", 3.0, MANY)]
    cluster.write(partial(delete_rows, table=runs))
    assert number(cluster, runs) == 0
    assert 0 < StrictConnection.largest <= ROWS_OF_A_TRANSACTION


def test_a_change_of_a_few_rows_is_one_transaction(cluster: Catalog) -> None:
    def change(connection: Connection) -> None:
        upsert(connection, campaigns, [{"campaign": "a"}])
        upsert(connection, replicas, [{"dataset": "d", "version": "1", "region": "r", "uri": None}])

    with pytest.raises(TraingridError, match="refused a statement"):
        cluster.write(change)
    assert number(cluster, campaigns) == 0


def test_an_interrupted_change_is_complete_after_it_ran_again(cluster: Catalog) -> None:
    rows = [{"campaign": f"c{number}"} for number in range(MANY)]

    def interrupted(connection: Connection) -> None:
        upsert(connection, campaigns, rows[:2500])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.write(interrupted)
    assert 0 < number(cluster, campaigns) < 2500
    cluster.write(partial(upsert, table=campaigns, rows=rows))
    assert number(cluster, campaigns) == MANY


def test_a_conflict_at_a_commit_repeats_the_change(cluster: Catalog, waits: list[float]) -> None:
    StrictConnection.conflicts = 2
    cluster.write(partial(upsert, table=campaigns, rows=[{"campaign": f"c{number}"} for number in range(MANY)]))
    assert (number(cluster, campaigns), len(waits)) == (MANY, 2)
    assert 0 < waits[0] < waits[1] * 2


def test_permanent_conflicts_are_one_sentence_and_change_nothing(cluster: Catalog, waits: list[float]) -> None:
    StrictConnection.conflicts = 99
    with pytest.raises(TraingridError, match="reported a conflict with another transaction 5 times"):
        cluster.write(partial(upsert, table=campaigns, rows=[{"campaign": "a"}]))
    assert (number(cluster, campaigns), len(waits)) == (0, 5)


def test_a_change_repeats_after_a_conflict_with_a_real_transaction(cluster: Catalog, waits: list[float]) -> None:
    cluster.write(partial(upsert, table=campaigns, rows=[{"campaign": "a", "description": "0"}]))
    tries = []

    def change(connection: Connection) -> None:
        found = connection.execute(select(campaigns.c.description)).scalar()
        tries.append(found)
        if len(tries) == 1:
            with cluster.engine.begin() as other:
                other.execute(update(campaigns).values(description="1"))
        connection.execute(update(campaigns).values(description=f"{found}+"))

    cluster.write(change)
    assert (tries, len(waits)) == (["0", "1"], 1)
    with cluster.read_only() as connection:
        assert connection.execute(select(campaigns.c.description)).scalar() == "1+"


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["CREATE TABLE a (b TEXT)", "CREATE TABLE c (d TEXT)"], "multiple ddl"),
        (["CREATE TABLE a (b TEXT)", "INSERT INTO campaigns (campaign) VALUES ('a')"], "ddl and dml"),
        (["INSERT INTO campaigns (campaign) VALUES ('a')", "CREATE TABLE a (b TEXT)"], "ddl and dml"),
        (["CREATE INDEX a ON campaigns (description)"], "unsupported statement"),
        (["CREATE TABLE a (b TEXT REFERENCES campaigns (campaign))"], "CREATE TABLE"),
        (["CREATE TABLE a (b SERIAL PRIMARY KEY)"], "CREATE TABLE"),
        (["ALTER TABLE campaigns ADD COLUMN a TEXT NOT NULL DEFAULT ''"], "ALTER TABLE"),
        (["ALTER TABLE campaigns ALTER COLUMN description SET NOT NULL"], "ALTER TABLE"),
        (["SAVEPOINT a"], "unsupported statement"),
        (["TRUNCATE campaigns"], "unsupported statement"),
        (["SELECT * FROM campaigns FOR UPDATE"], "equality"),
        ([f"INSERT INTO campaigns (campaign) SELECT n::text FROM generate_series(1, {ROWS + 1}) AS n"], "row limit"),
    ],
)
def test_the_checks_refuse_each_limit(cluster: Catalog, statements: list[str], reason: str) -> None:
    *before, refused = statements
    with cluster.engine.connect() as connection:
        for statement in before:
            connection.execute(text(statement))
        with pytest.raises(DBAPIError, match=reason):
            connection.execute(text(refused))


def test_the_checks_refuse_a_cursor_of_the_server(cluster: Catalog) -> None:
    with cluster.engine.connect() as connection, pytest.raises(psycopg.Error, match="DECLARE"):
        connection.connection.cursor(name="a")
