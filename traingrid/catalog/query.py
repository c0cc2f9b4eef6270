"""Queries: runs a SELECT that a user wrote, without any possibility to write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError, ResourceClosedError

from traingrid.catalog.database import Catalog, reason_of
from traingrid.catalog.dsql import is_limited
from traingrid.catalog.parameters import for_psycopg, for_sqlite, names_in
from traingrid.errors import UsageError

MAX_ROWS = 200_000
"""The maximum number of rows of a result, which is held in memory; a manifest has at most 50,000 lines."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a query.

    Attributes:
        rows: The rows, with a value for each column.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def select(catalog: Catalog, sql: str, parameters: Mapping[str, str]) -> Result:
    """Return the result of a SELECT.

    The database refuses everything else. SQLite's authorizer permits only reading (`Catalog.read_only`). PostgreSQL
    gets the statement as the query of a cursor, which accepts a SELECT or VALUES without data-modifying WITH
    (https://www.postgresql.org/docs/15/sql-declare.html), in a read-only transaction. Aurora DSQL, which does not
    document cursors, gets it as a prepared statement (`DsqlDialect`), which is only one, in a read-only transaction.

    Args:
        sql: One SELECT; `:name` is the place of a parameter.
        parameters: The values of the parameters, as text.

    Raises:
        UsageError: The statement is not a SELECT or is invalid, a parameter is missing or unknown, or the result is too
            large.
        TraingridError: The database does not answer.
    """
    sql = sql.strip().rstrip(";")
    _check_text(sql, *parameters.values())
    _check_parameters(names_in(sql), set(parameters))
    is_sqlite = catalog.engine.dialect.name == "sqlite"
    statement = sql if is_sqlite else for_psycopg(sql)
    values = for_sqlite(parameters) if is_sqlite else dict(parameters)
    with catalog.read_only() as connection:
        try:
            streaming = connection.execution_options(stream_results=not is_limited(connection))
            with streaming.exec_driver_sql(statement, values) as cursor:
                columns = tuple(cursor.keys())
                rows = tuple(tuple(row) for row in cursor.fetchmany(MAX_ROWS + 1))
        except ResourceClosedError:
            raise _query_error("it returns no rows") from None
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            if reason_of(error) == "interrupted":  # SQLite's error for a signal
                raise KeyboardInterrupt from None
            raise _query_error(reason_of(error)) from error
    if len(rows) > MAX_ROWS:
        raise UsageError(f"The query returns more than {MAX_ROWS:,} rows.", "Add a LIMIT.")
    return Result(columns=columns, rows=rows)


def _query_error(reason: str) -> UsageError:
    return UsageError(f"The query cannot be run: {reason}.", "A query is one SELECT, which cannot change the catalog.")


def _check_text(*texts: str) -> None:
    """Refuse texts that a database would cut off or that are not Unicode."""
    for text in texts:
        if "\0" in text:
            raise _query_error("it contains a NUL character")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _query_error("it is not UTF-8 text") from None


def _check_parameters(in_query: set[str], given: set[str]) -> None:
    if missing := sorted(in_query - given):
        options = " ".join(f"--param {name}=VALUE" for name in missing)
        raise UsageError(f"The query has no value for {', '.join(f':{name}' for name in missing)}.", f"Add {options}.")
    if unknown := sorted(given - in_query):
        accepted = ", ".join(f":{name}" for name in sorted(in_query)) or "no parameters"
        raise UsageError(f"The query has no parameter :{unknown[0]}.", f"It has {accepted}.")
