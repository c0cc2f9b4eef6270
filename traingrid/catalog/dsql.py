"""Aurora DSQL: SQLAlchemy's dialect of the database that `catalog: dsql` in grid.yaml creates.

It is the dialect of PostgreSQL with the differences that the catalog needs (docs/decisions/aurora-dsql.md).
"""

import re
from typing import Any

from botocore.httpsession import get_cert_path
from sqlalchemy import URL, Connection
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine.interfaces import ConnectArgsType, DBAPIConnection

from traingrid.aws.clients import client

ADMIN = "admin"
"""The role that every cluster has
(https://docs.aws.amazon.com/aurora-dsql/latest/userguide/using-database-and-iam-roles.html)."""
DATABASE = "postgres"
"""The only database of a cluster
(https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-postgresql-compatibility-unsupported-features.html)."""
ENDPOINT = re.compile(r"[a-z0-9]+\.dsql(?:-[a-z0-9]+)?\.([a-z0-9-]+)\.on\.aws")
"""A cluster's host name, which contains its Region
(https://docs.aws.amazon.com/aurora-dsql/latest/userguide/SECTION_authentication-token.html)."""
ROWS_OF_A_TRANSACTION = 1_000
"""Rows after which a change continues in another transaction. A transaction may write 3,000 rows and 10 MiB
(https://docs.aws.amazon.com/aurora-dsql/latest/userguide/CHAP_quotas.html); a row of `runs` has up to a few KiB."""
_CONNECT_SECONDS = 10
"""After which a connection is given up, so that functions do not wait for a cluster while others need the account's
concurrent invocations (https://www.postgresql.org/docs/15/libpq-connect.html, connect_timeout)."""
_WRITTEN = "rows written in this transaction"


class _Compiler(PGDDLCompiler):
    """Creates indexes asynchronously, the only way that Aurora DSQL offers.

    https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-create-index-async.html
    """

    def visit_create_index(self, *words: Any, **options: Any) -> str:
        """Return the statement of an index."""
        compiled: str = super().visit_create_index(*words, **options)  # type: ignore[no-untyped-call]  # untyped in SQLAlchemy
        return compiled.replace("INDEX ", "INDEX ASYNC ", 1)


class DsqlDialect(PGDialect_psycopg):
    """The dialect of `dsql+psycopg://USER@ENDPOINT/postgres`: encrypted connections with a login token of IAM."""

    ddl_compiler = _Compiler
    supports_statement_cache = True

    def __init__(self, **options: Any) -> None:
        # psycopg looks up the type hstore in a SAVEPOINT, which Aurora DSQL does not have (page as for DATABASE).
        super().__init__(use_native_hstore=False, **options)  # type: ignore[no-untyped-call]  # untyped in SQLAlchemy

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """Return the arguments of a connection to the cluster, except for the token.

        The certificates are botocore's: the ones in libpq's `system` store are not found by the libpq that psycopg's
        wheel contains, which looks for them in another folder.
        """
        words, options = super().create_connect_args(url)  # type: ignore[no-untyped-call]  # untyped in SQLAlchemy
        # Statements are prepared, so that the server refuses more than one at a time without a cursor
        # (https://www.postgresql.org/docs/16/protocol-flow.html, extended query).
        tls = {"sslmode": "verify-full", "sslrootcert": get_cert_path(True)}  # positional in botocore
        return words, {**options, **tls, "prepare_threshold": 0, "connect_timeout": _CONNECT_SECONDS}

    def connect(self, *words: Any, **options: Any) -> DBAPIConnection:
        """Connect with a new token."""
        return super().connect(*words, **options, password=login_token(options["host"], options["user"]))


def login_token(endpoint: str, user: str) -> str:
    """Return the password of a connection: a request that the caller's credentials sign, valid for 15 minutes.

    https://docs.aws.amazon.com/aurora-dsql/latest/userguide/SECTION_authentication-token.html

    Args:
        endpoint: Host name of the cluster.
        user: A role of the database; `admin` requires the permission dsql:DbConnectAdmin, others dsql:DbConnect.
    """
    match = ENDPOINT.fullmatch(endpoint)
    region = match[1] if match else ""
    dsql = client("dsql", region)
    if user == ADMIN:
        return str(dsql.generate_db_connect_admin_auth_token(endpoint, region))
    return str(dsql.generate_db_connect_auth_token(endpoint, region))


def is_limited(connection: Connection) -> bool:
    """Return True if the database limits transactions: the statements of a schema, and the rows of a change."""
    return isinstance(connection.dialect, DsqlDialect)


def begin_rows(connection: Connection, rows: int) -> None:
    """Continue in another transaction if this one would become too large for the database.

    Args:
        connection: A connection in a transaction.
        rows: The number of rows that the next statement writes, at most `ROWS_OF_A_TRANSACTION`.
    """
    if not is_limited(connection):
        return
    rows_so_far = connection.info.get(_WRITTEN, 0)
    if rows_so_far + rows > ROWS_OF_A_TRANSACTION:
        connection.commit()
        rows_so_far = 0
    connection.info[_WRITTEN] = rows_so_far + rows
