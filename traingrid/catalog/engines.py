"""Engines: connections to the databases that a catalog can be in."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, make_url
from sqlalchemy.dialects import registry
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from traingrid.catalog.dsql import ADMIN, DATABASE, ENDPOINT
from traingrid.errors import UsageError

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import URL, Engine

_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "dsql": "dsql+psycopg",
    "dsql+psycopg": "dsql+psycopg",
}
registry.register("dsql.psycopg", "traingrid.catalog.dsql", "DsqlDialect")
_LOCK_SECONDS = 30.0
"""How long SQLite waits for another process that writes to the file."""
_INSTRUCTIONS = 100_000
"""Instructions of SQLite's virtual machine, some milliseconds, after which it calls the progress handler."""
_READING = {
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE),
    sqlite3.SQLITE_TRANSACTION,  # sqlite3 itself ends the transaction of a connection
}
_READING_PRAGMAS = {"table_info", "table_xinfo"}
"""They list a table's columns; SQLAlchemy asks them whether a table exists."""


def catalog_url(text: str) -> URL:
    """Return the URL of a database with the driver that the extra `catalog` installs.

    Args:
        text: `sqlite:///FILE`, `postgresql://USER@HOST/DATABASE`, or `dsql://ENDPOINT` for a cluster of Aurora DSQL.

    Raises:
        UsageError: It is not a URL, or another database.
    """
    forms = "Write sqlite:///catalog.db or postgresql://user@host/database."
    try:
        url = make_url(text)
    except ArgumentError:
        raise UsageError("The catalog's URL cannot be parsed.", forms) from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise UsageError(f"The catalog cannot be a database of the kind {url.drivername!r}.", forms)
    if driver.startswith("sqlite") and url.database in (None, "", ":memory:"):
        raise UsageError("The catalog's URL names no file.", forms)
    if driver.startswith("dsql"):
        return _dsql(url)
    return url.set(drivername=driver)


def _dsql(url: URL) -> URL:
    """Return the URL of a cluster with its database and the role `admin`, unless it names another one."""
    if not ENDPOINT.fullmatch(url.host or "") or url.password or url.query or url.database not in (None, "", DATABASE):
        message = "The catalog's URL names no cluster of Aurora DSQL."
        raise UsageError(message, "Write dsql://ENDPOINT; the endpoint ends with .dsql.REGION.on.aws.")
    return url.set(drivername="dsql+psycopg", username=url.username or ADMIN, database=DATABASE)


def writer(url: URL) -> Engine:
    """Return an engine whose transactions may write."""
    if not url.drivername.startswith("sqlite"):
        return _postgresql(url)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _LOCK_SECONDS})
    # Python's sqlite3 would begin a transaction only before the first INSERT, so a failed migration would leave its
    # first tables (https://docs.sqlalchemy.org/en/21/dialects/sqlite.html, transactional DDL). IMMEDIATE waits for
    # another writer; a transaction that reads first would fail instead (https://www.sqlite.org/lang_transaction.html).
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def reader(url: URL) -> Engine:
    """Return an engine whose connections the database itself prevents from writing.

    In PostgreSQL their transactions are read-only (https://www.postgresql.org/docs/15/sql-set-transaction.html).
    SQLite opens the file read-only, and an authorizer permits nothing but reading; without it, ATTACH could open
    another file (https://www.sqlite.org/c3ref/set_authorizer.html).
    """
    if not url.drivername.startswith("sqlite"):
        return _postgresql(url, postgresql_readonly=True)
    file = Path(str(url.database)).absolute().as_uri()
    engine = create_engine(
        url.set(database=file, query={"mode": "ro", "uri": "true"}),
        poolclass=NullPool,
        connect_args={"timeout": _LOCK_SECONDS},
    )
    event.listen(engine, "connect", lambda connection, _: _restrict(connection))
    return engine


def _postgresql(url: URL, **options: bool) -> Engine:
    engine = create_engine(url, poolclass=NullPool, execution_options=options)
    event.listen(engine, "connect", lambda connection, _: _use_utc(connection))
    return engine


def _use_utc(connection: psycopg.Connection[Any]) -> None:
    """Read and print times in UTC, as SQLite does, and not in the time zone of the user or the server."""
    connection.execute("SET TIME ZONE 'UTC'")
    connection.commit()


def _restrict(connection: sqlite3.Connection) -> None:
    connection.set_authorizer(_only_reading)
    # Python handles a signal only while it runs its own code, so without this a query could not be interrupted.
    connection.set_progress_handler(lambda: 0, _INSTRUCTIONS)


def _only_reading(action: int, name: str | None, *_: object) -> int:
    allowed = action in _READING or (action == sqlite3.SQLITE_PRAGMA and name in _READING_PRAGMAS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
