"""Roles: the role in Aurora DSQL of the function that follows the ledger, with the privileges that it needs.

https://docs.aws.amazon.com/aurora-dsql/latest/userguide/using-database-and-iam-roles.html
"""

from collections.abc import Iterator

from sqlalchemy import Connection, text

from traingrid.catalog.database import Catalog, answers
from traingrid.names import CATALOG_FOLLOWER

_PRIVILEGES = {
    "SELECT, INSERT, UPDATE, DELETE": ("runs", "transfers"),
    "SELECT, INSERT, UPDATE": ("datasets", "replicas"),
    "SELECT, INSERT": ("campaigns",),
    "SELECT": ("prices", "transfer_prices", "alembic_version"),
}
"""The privileges of `follow`, by table. It cannot read or write how far syncs have read the ledger."""


def grant_privileges(catalog: Catalog, iam_role: str) -> None:
    """Let an IAM role connect as the function's role, and give that role its privileges; repeat it after migrations.

    Each statement is a transaction, as in migrations, and does nothing if its result exists.

    Args:
        catalog: A catalog in Aurora DSQL, with a user who may create roles.

    Raises:
        TraingridError: The database does not answer, or does not find the IAM role.
    """
    with answers(catalog.name), catalog.engine.connect() as connection:
        # These statements cannot all be prepared: AWS documents them for psql, which sends them as simple queries.
        driver = connection.connection.driver_connection
        if driver is not None:
            driver.prepare_threshold = None
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in _statements(connection, iam_role):
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def _statements(connection: Connection, iam_role: str) -> Iterator[str]:
    if not _exists(connection, "pg_roles WHERE rolname = :role", role=CATALOG_FOLLOWER):
        yield f"CREATE ROLE {CATALOG_FOLLOWER} WITH LOGIN"
    mapping = "sys.iam_pg_role_mappings WHERE pg_role_name = :role AND arn = :arn"
    if not _exists(connection, mapping, role=CATALOG_FOLLOWER, arn=iam_role):
        yield f"AWS IAM GRANT {CATALOG_FOLLOWER} TO '{iam_role}'"
    schema = connection.execute(text("SELECT current_schema()")).scalar()
    yield f'GRANT USAGE ON SCHEMA "{schema}" TO {CATALOG_FOLLOWER}'
    for privileges, tables in _PRIVILEGES.items():
        yield f"GRANT {privileges} ON {', '.join(tables)} TO {CATALOG_FOLLOWER}"


def _exists(connection: Connection, source: str, **values: str) -> bool:
    rows = connection.execute(text(f"SELECT 1 FROM {source}"), values)  # noqa: S608  # constants above
    return rows.first() is not None
