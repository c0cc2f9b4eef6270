"""DDL: the operations of migrations, in the forms that all databases of a catalog support.

In Aurora DSQL, each statement is a separate transaction, so a migration that was interrupted runs again: each
operation changes nothing if its result exists.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from traingrid.catalog.dsql import is_limited


def create_table(name: str, *columns: sa.Column[Any]) -> None:
    """Create a table, unless it exists."""
    op.create_table(name, *columns, if_not_exists=True)


def create_index(name: str, table: str, columns: list[str]) -> None:
    """Create an index, unless it exists."""
    op.create_index(name, table, columns, if_not_exists=True)


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column.

    Aurora DSQL adds only columns without constraints, and can set their default for later rows
    (https://docs.aws.amazon.com/aurora-dsql/latest/userguide/alter-table-syntax-support.html). The column may
    therefore be NULL in rows that existed before.
    """
    if not is_limited(op.get_bind()):
        op.add_column(table, column)
        return
    op.add_column(table, sa.Column(column.name, column.type), if_not_exists=True)
    if column.server_default is not None:
        op.alter_column(table, column.name, server_default=column.server_default)
