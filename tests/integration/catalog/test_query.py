"""A user's SELECT, on SQLite, on a real PostgreSQL, and on one with the limits of Aurora DSQL."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from bench.postgres_server import PostgresServer
from traingrid.catalog import query
from traingrid.catalog.batches import upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.tables import campaigns
from traingrid.errors import UsageError

FROM_A = "SELECT campaign, description FROM a ORDER BY campaign DESC"
ROWS = [{"campaign": f"c{number}", "description": f"day {number}"} for number in range(5)]


@pytest.fixture(scope="module")
def filled(shared_catalog: Catalog) -> Catalog:
    shared_catalog.write(lambda connection: upsert(connection, campaigns, ROWS))
    return shared_catalog


def number_of_campaigns(catalog: Catalog) -> Any:
    with catalog.read_only() as connection:
        return connection.execute(select(func.count()).select_from(campaigns)).scalar()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT campaign, description FROM campaigns WHERE campaign >= :first ORDER BY campaign DESC",
        "SELECT campaign, description FROM campaigns WHERE campaign >= :first ORDER BY campaign DESC;\n -- the newest",
        f"WITH a AS (SELECT * FROM campaigns WHERE campaign >= :first) {FROM_A}",
    ],
)
def test_a_select_returns_its_rows_in_order(filled: Catalog, sql: str) -> None:
    found = query.select(filled, sql, {"first": "c3"})
    assert found.columns == ("campaign", "description")
    assert found.rows == (("c4", "day 4"), ("c3", "day 3"))


def test_a_parameter_is_a_value_and_never_sql(filled: Catalog) -> None:
    found = query.select(filled, "SELECT campaign FROM campaigns WHERE campaign = :name", {"name": "c1' OR 'a' = 'a"})
    assert found.rows == ()


def test_a_number_can_be_a_parameter(filled: Catalog) -> None:
    found = query.select(filled, "SELECT campaign FROM campaigns ORDER BY campaign LIMIT :most", {"most": "2"})
    assert [row[0] for row in found.rows] == ["c0", "c1"]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM campaigns",
        "DELETE FROM campaigns RETURNING campaign",
        "WITH old AS (SELECT 'c1' AS campaign) DELETE FROM campaigns WHERE campaign IN (SELECT campaign FROM old)",
        "WITH gone AS (DELETE FROM campaigns RETURNING campaign) SELECT campaign FROM gone",
        "INSERT INTO campaigns (campaign) VALUES ('x')",
        "SELECT 1; DELETE FROM campaigns",
        "SELECT 1; COMMIT; DELETE FROM campaigns",
        "SELECT campaign FROM campaigns) AS q; DELETE FROM campaigns; SELECT * FROM (SELECT 1",
        "COMMIT; DELETE FROM campaigns",
        "DROP TABLE campaigns",
        "CREATE TABLE other (a TEXT)",
        "CREATE TEMPORARY TABLE other AS SELECT 1",
        "SELECT * INTO other FROM campaigns",
        "ATTACH DATABASE 'other.db' AS other",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "VACUUM INTO 'copy.db'",
        "COPY (SELECT 1) TO PROGRAM 'touch made'",
        "COPY campaigns FROM '/etc/passwd'",
        "SET TRANSACTION READ WRITE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SELECT nextval('numbers')",
        "DO $$ BEGIN DELETE FROM campaigns; END $$",
        "BEGIN",
        "EXPLAIN ANALYZE DELETE FROM campaigns",
        "CALL remove()",
        "SELECT FROM WHERE",
        "SELECT missing FROM campaigns",
        "",
    ],
)
def test_every_other_statement_is_refused(
    filled: Catalog, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"^The query cannot be run: .*\. A query is one SELECT") as error:
        query.select(filled, sql, {})
    assert "\n" not in error.value.what
    assert number_of_campaigns(filled) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "value",
    ["'at 12:30:00 :x'", "'{\"a\":1}'", "'a\\:b'", "'100%'", "'%(x)s'", "'it''s :x'", "'\"' -- :x", "'a' /* :x */"],
)
def test_colons_and_signs_in_literals_and_comments_are_no_parameters(filled: Catalog, value: str) -> None:
    literal = value.partition(" --")[0].partition(" /*")[0][1:-1].replace("''", "'")
    assert query.select(filled, f"SELECT {value}", {}).rows == ((literal,),)
    assert query.select(filled, f"SELECT :y, {value}", {"y": "%s:x"}).rows == (("%s:x", literal),)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT :day::date", "2026-11-01"),
        ("SELECT (ARRAY[1,2,3])[:2]", "[1, 2]"),
        ("SELECT (ARRAY[1,2,3])[2:n] FROM (SELECT 3 AS n) AS a", "[2, 3]"),
        ("SELECT $$ :c $x$ $$", " :c $x$ "),
        ("SELECT $a$ :c $$ $a$", " :c $$ "),
        (r"SELECT E'it\'s :c'", "it's :c"),
        ("""SELECT '{"a": 1}'::jsonb ? 'a'""", "True"),
        ("SELECT current_setting('TimeZone')", "UTC"),
        ("SELECT 10 % 3", "1"),
    ],
)
def test_syntax_of_postgresql_is_left_alone(postgres: PostgresServer, sql: str, found: str) -> None:
    catalog = Catalog(catalog_url(postgres.new_schema()))
    parameters = {"day": "2026-11-01"} if ":day" in sql else {}
    assert str(query.select(catalog, sql, parameters).rows[0][0]) == found


@pytest.mark.parametrize("time", ["2026-11-02T00:00:00Z", "2026-11-02 00:00", "2026-11-02T05:00:00+05:00"])
def test_times_are_compared_as_times(catalog: Catalog, time: str) -> None:
    midnight = datetime(2026, 11, 2, tzinfo=UTC)
    catalog.write(lambda connection: upsert(connection, campaigns, [{"campaign": "a", "created_at": midnight}]))
    for comparison in (">=", "<=", "="):
        sql = f"SELECT campaign FROM campaigns WHERE created_at {comparison} :time"
        assert query.select(catalog, sql, {"time": time}).rows == (("a",),)


@pytest.mark.parametrize(("sql", "reason"), [("SELECT 1\0 WHERE 1 = 2", "NUL"), ("SELECT '\udcff'", "not UTF-8")])
def test_text_that_a_database_would_cut_off_is_refused(filled: Catalog, sql: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        query.select(filled, sql, {})
    with pytest.raises(UsageError, match=reason):
        query.select(filled, "SELECT :x", {"x": sql})


def test_an_endless_query_can_be_interrupted(tmp_path: Path) -> None:
    catalog = Catalog(catalog_url(f"sqlite:///{tmp_path}/catalog.db"))
    catalog.create()
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t"
    # A shell starts background processes with SIGINT ignored, which is inherited.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    program += "from traingrid.cli.main import main; main()"
    command = [sys.executable, "-c", program, "--verbose", "catalog", "sql", endless, "--catalog", catalog.name]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        assert any("using the catalog" in line for line in process.stderr)  # reads until the command has begun
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=120)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Interrupted." in errors


@pytest.mark.parametrize("url", ["postgresql", "dsql"], indirect=True)  # SQLite has no functions of users
def test_functions_cannot_write(catalog: Catalog) -> None:
    with catalog.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION add_campaign() RETURNS TEXT LANGUAGE SQL"
            " AS $$ INSERT INTO campaigns (campaign) VALUES ('x') RETURNING campaign $$"
        )
    with pytest.raises(UsageError, match="read-only transaction"):
        query.select(catalog, "SELECT add_campaign()", {})
    assert number_of_campaigns(catalog) == 0


def test_parameters_are_named_in_errors(filled: Catalog) -> None:
    sql = "SELECT campaign FROM campaigns WHERE campaign = :name AND description = :text"
    with pytest.raises(UsageError, match=r"no value for :name, :text\. Add --param name=VALUE --param text=VALUE\.$"):
        query.select(filled, sql, {})
    with pytest.raises(UsageError, match=r"no parameter :nam\. It has :name, :text\.$"):
        query.select(filled, sql, {"name": "a", "text": "b", "nam": "c"})


def test_a_result_is_limited(filled: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_ROWS", 4)
    with pytest.raises(UsageError, match=r"more than 4 rows\. Add a LIMIT\.$"):
        query.select(filled, "SELECT campaign FROM campaigns", {})
    assert len(query.select(filled, "SELECT campaign FROM campaigns LIMIT 4", {}).rows) == 4
