"""Batches: changes of many rows, which Aurora DSQL permits only in several transactions.

A change that is interrupted between two of them is complete after the same command has run again: rows are inserted
only if they do not exist, and deleted or updated only if they still match a condition.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Delete, Executable, Table, Update, delete, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from traingrid.catalog.dsql import begin_rows, is_limited

_Row = TypeVar("_Row")
_INSERTS: Mapping[str, Callable[[Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_ROWS = 500
"""Rows of one INSERT. SQLite accepts 32,766 parameters (https://www.sqlite.org/limits.html), and PostgreSQL's protocol
65,535 (https://www.postgresql.org/docs/15/protocol-message-formats.html, Bind); no table has more than 40 columns."""


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; a row whose primary key exists replaces the given columns of the existing row.

    Args:
        connection: A connection in a transaction.
        rows: The rows; all have the same columns, and no primary key occurs twice.
    """
    insert = _INSERTS[connection.dialect.name]
    keys = {column.name for column in table.primary_key}
    for batch in _batches(rows):
        statement = insert(table).values(list(batch))
        updated_columns = {name: statement.excluded[name] for name in batch[0] if name not in keys}
        if updated_columns:
            statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=updated_columns)
        else:
            statement = statement.on_conflict_do_nothing()
        begin_rows(connection, len(batch))
        connection.execute(statement)


def delete_rows(connection: Connection, table: Table, *conditions: ColumnElement[bool]) -> None:
    """Delete the rows of a table that match conditions, or all rows."""
    _change_rows(connection, table, delete(table), conditions)


def update_rows(
    connection: Connection, table: Table, *conditions: ColumnElement[bool], values: Mapping[str, Any]
) -> None:
    """Set columns of the rows that match conditions, which no row matches afterwards."""
    _change_rows(connection, table, update(table).values(**values), conditions)


def execute_many(connection: Connection, statement: Executable, parameters: Sequence[Mapping[str, Any]]) -> None:
    """Run a statement that changes one row, once for each set of parameters."""
    for batch in _batches(parameters):
        begin_rows(connection, len(batch))
        connection.execute(statement, list(batch))


def _batches(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    """Yield the rows in groups that fit into one statement."""
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS]


def _change_rows(
    connection: Connection, table: Table, statement: Delete | Update, conditions: Sequence[ColumnElement[bool]]
) -> None:
    """Run a statement on the rows that match conditions."""
    if not is_limited(connection):
        connection.execute(statement.where(*conditions))
        return
    key = list(table.primary_key)
    while rows := connection.execute(select(*key).where(*conditions).limit(_ROWS)).all():
        begin_rows(connection, len(rows))
        connection.execute(statement.where(tuple_(*key).in_([tuple(row) for row in rows])))
