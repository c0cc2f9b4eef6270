"""The tables, on SQLite, on a real PostgreSQL, and on one with the limits of Aurora DSQL."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, select, text

from bench.postgres_server import PostgresServer
from traingrid.catalog import database
from traingrid.catalog.batches import upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.dsql import is_limited
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.tables import campaigns, datasets, metadata, prices, runs
from traingrid.errors import TraingridError, UsageError


def test_migrations_create_the_tables_that_the_code_describes(catalog: Catalog) -> None:
    with catalog.engine.connect() as connection:
        defaults = connection.dialect.name == "postgresql"  # Alembic compares an empty text wrongly in SQLite
        options = {"compare_type": True, "compare_server_default": defaults}
        context = MigrationContext.configure(connection, opts=options)
        differences = [change for change in compare_metadata(context, metadata) if "alembic_version" not in str(change)]
        # Aurora DSQL cannot add a column that must not be NULL.
        added = {("runs", "recipe"), ("runs", "tags")} if is_limited(connection) else set()
    nullable = {(change[0][2], change[0][3]) for change in differences if change[0][0] == "modify_nullable"}
    assert (nullable, len(differences)) == (added, len(added))


def test_create_changes_nothing_the_second_time(url: str) -> None:
    catalog = Catalog(catalog_url(url))
    assert catalog.create()
    assert not catalog.create()
    catalog.check()


def test_a_catalog_without_tables_names_the_command_that_creates_them(url: str) -> None:
    catalog = Catalog(catalog_url(url))
    with pytest.raises(TraingridError, match=r"traingrid catalog init\.$"):
        catalog.check()


def test_a_newer_schema_is_refused_and_left_alone(catalog: Catalog) -> None:
    catalog.write(lambda connection: set_revision(connection, "9999"))
    for use in (catalog.check, catalog.create):
        with pytest.raises(TraingridError, match=r"newer version of traingrid \(9999\)\. Install that version"):
            use()


def set_revision(connection: Connection, revision: str) -> None:
    connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})


def test_a_failed_migration_leaves_no_table_or_is_continued(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        message = "the disk is full"
        raise RuntimeError(message)

    monkeypatch.setattr(op, "create_index", fail)
    catalog = Catalog(catalog_url(url))
    with pytest.raises(RuntimeError, match="the disk is full"):
        catalog.create()
    with pytest.raises(TraingridError, match="traingrid catalog init"):
        catalog.check()
    with catalog.engine.connect() as connection:
        assert bool(inspect(connection).get_table_names()) == is_limited(connection)
    monkeypatch.undo()
    assert catalog.create()
    catalog.check()


def test_rows_are_inserted_once_and_then_updated(catalog: Catalog) -> None:
    rows = [{"campaign": f"c{number}", "hyperparameters": {"epochs": number}} for number in range(1200)]
    for description in ("first", "second"):
        changed = [{**row, "description": description} for row in rows]
        catalog.write(partial(upsert, table=campaigns, rows=changed))
    with catalog.read_only() as connection:
        found = connection.execute(select(campaigns).order_by(campaigns.c.campaign)).all()
    assert len(found) == 1200
    assert {row.description for row in found} == {"second"}
    assert next(row for row in found if row.campaign == "c7").hyperparameters == {"epochs": 7}


def test_an_update_keeps_the_columns_that_it_does_not_name(catalog: Catalog) -> None:
    catalog.write(
        lambda connection: upsert(connection, datasets, [{"dataset": "a", "version": "1", "format": "tfrecord"}])
    )
    catalog.write(lambda connection: upsert(connection, datasets, [{"dataset": "a", "version": "1", "bytes": 2**40}]))
    catalog.write(lambda connection: upsert(connection, datasets, [{"dataset": "a", "version": "1"}]))
    with catalog.read_only() as connection:
        found = connection.execute(select(datasets)).one()
    assert (found.format, found.bytes) == ("tfrecord", 2**40)


def test_times_are_in_utc(catalog: Catalog) -> None:
    noon = datetime(2026, 11, 23, 12, tzinfo=timezone(timedelta(hours=5)))
    catalog.write(lambda connection: upsert(connection, campaigns, [{"campaign": "a", "created_at": noon}]))
    with catalog.read_only() as connection:
        assert connection.execute(select(campaigns.c.created_at)).scalar() == datetime(2026, 11, 23, 7, tzinfo=UTC)


def test_a_key_of_numbers_is_never_generated(catalog: Catalog) -> None:
    catalog.write(lambda connection: upsert(connection, runs, [{"submission": "s", "job": 0, "attempt": 1}]))
    with catalog.read_only() as connection:
        assert connection.execute(select(runs.c.job, runs.c.attempt, runs.c.metrics)).one() == (0, 1, {})


def test_a_refused_row_leaves_nothing_of_its_transaction(catalog: Catalog) -> None:
    row = {"region": "us-east-1", "purchase_option": "spot", "dollars_per_hour": 1.0, "as_of": date(2026, 11, 1)}

    def change(connection: Connection) -> None:
        upsert(connection, campaigns, [{"campaign": "a"}])
        upsert(connection, prices, [{**row, "instance_type": None}])

    with pytest.raises(TraingridError, match=r"refused a statement: .*instance_type"):
        catalog.write(change)
    with catalog.read_only() as connection:
        assert connection.execute(select(campaigns)).all() == []


def test_writers_take_turns(catalog: Catalog) -> None:
    catalog.write(lambda connection: upsert(connection, campaigns, [{"campaign": "a", "description": "0"}]))

    def count(_: int) -> None:
        def change(connection: Connection) -> None:
            for_update = select(campaigns.c.description).where(campaigns.c.campaign == "a").with_for_update()
            value = int(str(connection.execute(for_update).scalar()))
            upsert(connection, campaigns, [{"campaign": "a", "description": str(value + 1)}])

        catalog.write(change)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(20)))
    with catalog.read_only() as connection:
        assert connection.execute(select(campaigns.c.description)).scalar() == "20"


def test_a_change_is_repeated_after_a_conflict(postgres_catalog: Catalog) -> None:
    waits: list[float] = []
    catalog = Catalog(postgres_catalog.engine.url, sleep=waits.append)
    tries = []

    def change(connection: Connection) -> None:
        tries.append(1)
        if len(tries) < 3:
            connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'conflict (OC000)' USING ERRCODE = '40001'; END $$"))
        upsert(connection, campaigns, [{"campaign": "a"}])

    catalog.write(change)
    assert (len(tries), len(waits)) == (3, 2)

    def always(connection: Connection) -> None:
        connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'conflict (OC000)' USING ERRCODE = '40001'; END $$"))

    with pytest.raises(TraingridError, match="reported a conflict with another transaction 5 times"):
        catalog.write(always)


@pytest.fixture
def postgres_catalog(postgres: PostgresServer) -> Catalog:
    catalog = Catalog(catalog_url(postgres.new_schema()))
    catalog.create()
    return catalog


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("catalog.db", "cannot be parsed"),
        ("mysql://host/db", "of the kind 'mysql'"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("dsql://db.example.com", "names no cluster"),
        ("dsql://abc.dsql.us-east-1.on.aws/other", "names no cluster"),
        ("dsql://me:secret@abc.dsql.us-east-1.on.aws", "names no cluster"),
    ],
)
def test_other_databases_are_refused(url: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        catalog_url(url)


def test_a_missing_file_is_not_created_by_reading(tmp_path: Path) -> None:
    catalog = Catalog(catalog_url(f"sqlite:///{tmp_path}/none.db"))
    with pytest.raises(TraingridError, match=r"none\.db does not exist\. Create it: traingrid catalog init\.$"):
        catalog.check()
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    catalog = Catalog(catalog_url("postgresql://me:secret@127.0.0.1:1/db"))
    with pytest.raises(
        TraingridError, match=r"^The catalog postgresql://me:\*\*\*@127\.0\.0\.1:1/db cannot be used: "
    ) as error:
        catalog.check()
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "grid.db").write_text("name: traingrid\n" * 100)
    with pytest.raises(TraingridError, match="file is not a database"):
        Catalog(catalog_url(f"sqlite:///{tmp_path}/grid.db")).check()


def test_a_path_with_signs_of_urls_works(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20?c#d"
    folder.mkdir()
    catalog = Catalog(catalog_url("sqlite:///x.db").set(database=str(folder / "catalog.db")))
    catalog.create()
    catalog.check()
    with sqlite3.connect(folder / "catalog.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone()
    connection.close()


def test_no_other_command_imports_the_extra() -> None:
    program = (
        "import sys, traingrid.cli.main; print([m for m in ('sqlalchemy', 'alembic', 'psycopg') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert ended.stdout == "[]\n"


def test_the_migrations_are_numbered_in_their_order() -> None:
    config = Config()
    config.set_main_option("script_location", str(database._MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert [script.revision for script in scripts.walk_revisions()][::-1] == database._revisions()


def test_a_journal_of_a_killed_writer_is_undone_by_the_next_reader(tmp_path: Path) -> None:
    catalog = Catalog(catalog_url(f"sqlite:///{tmp_path}/catalog.db"))
    catalog.create()
    program = f"""
import os, sqlite3
connection = sqlite3.connect({str(tmp_path / "catalog.db")!r}, isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for number in range(500):
    connection.execute("INSERT INTO campaigns (campaign, description) VALUES (?, ?)", (str(number), "x" * 1000))
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    assert (tmp_path / "catalog.db-journal").exists()
    catalog.check()
    with catalog.read_only() as connection:
        assert connection.execute(select(campaigns)).all() == []


def test_an_upgrade_keeps_the_rows_of_an_earlier_version(url: str) -> None:
    first = Catalog(catalog_url(url))
    with first.engine.connect() as connection:
        if is_limited(connection):
            connection.execution_options(isolation_level="AUTOCOMMIT")
        database._upgrade(connection, "0001")
        connection.execute(text("INSERT INTO runs (submission, job, attempt, region) VALUES ('0a1b2c3d', 0, 1, 'r')"))
        connection.commit()
    with pytest.raises(TraingridError, match="are of an earlier version of traingrid"):
        first.check()
    assert first.create()
    first.check()
    with first.read_only() as connection:
        (row,) = connection.execute(select(runs)).mappings()
    assert (row["region"], row["tags"], row["orchestration_dollars"]) == ("r", {}, None)
