"""Strict DSQL: a connection to PostgreSQL that refuses everything that Aurora DSQL documents as unsupported.

The product's dialect runs unchanged, except that it connects to a schema of a local server instead of a cluster. The
limits are those of these pages:

- https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-ddl.html (one DDL statement in a transaction)
- https://docs.aws.amazon.com/aurora-dsql/latest/userguide/CHAP_quotas.html (rows of a transaction, sizes, columns)
- https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-postgresql-compatibility-supported-sql-features.html
- https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-postgresql-compatibility-unsupported-features.html
- https://docs.aws.amazon.com/aurora-dsql/latest/userguide/alter-table-syntax-support.html
- https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-concurrency-control.html (conflicts)
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import psycopg
from psycopg import errors
from sqlalchemy import make_url
from sqlalchemy.dialects import registry

from traingrid.catalog.dsql import ADMIN, DsqlDialect

ROWS = 3_000
_SUPPORTED = re.compile(
    r"(SELECT|WITH|VALUES|INSERT|UPDATE|DELETE|EXPLAIN|SHOW|SET TIME ZONE|DROP TABLE|DROP INDEX"
    r"|CREATE (UNIQUE )?INDEX ASYNC|CREATE TABLE|ALTER TABLE|CREATE FUNCTION|CREATE ROLE|GRANT|AWS IAM GRANT)\b",
    re.IGNORECASE,
)
_DDL = re.compile(r"(CREATE|ALTER|DROP|GRANT|AWS)\b", re.IGNORECASE)
_IAM_GRANT = re.compile(r"AWS IAM GRANT (\w+) TO '(arn:aws:iam::\d{12}:(?:role|user)/[\w+=,.@/-]+)'")
_MAPPINGS = """CREATE SCHEMA IF NOT EXISTS sys;
CREATE TABLE IF NOT EXISTS sys.iam_pg_role_mappings (arn TEXT, pg_role_name TEXT);"""
"""The system table of IAM roles (https://docs.aws.amazon.com/aurora-dsql/latest/userguide/using-database-and-iam-roles.html)."""
_WRITING = re.compile(r"(INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_NOT_IN_TABLES = re.compile(
    r"\b(REFERENCES|FOREIGN KEY|EXCLUDE|SERIAL|BIGSERIAL|COLLATE|INHERITS|PARTITION|JSON|JSONB|TEMPORARY)\b",
    re.IGNORECASE,
)
_ACTION = re.compile(
    r"ALTER TABLE \S+ (ADD COLUMN (IF NOT EXISTS )?\w+ [A-Z ]+?(\(\d+\))?"
    r"|ALTER COLUMN \w+ (SET DEFAULT .+|DROP DEFAULT|DROP NOT NULL)|DROP COLUMN .+|RENAME .+)"
)
_CONSTRAINT = re.compile(r"ADD COLUMN .*\b(NOT NULL|DEFAULT|UNIQUE|PRIMARY|CHECK)\b")
_LOCK = re.compile(r"\bFOR (UPDATE|KEY SHARE|SHARE|NO KEY UPDATE)\b")


class StrictCursor(psycopg.Cursor[Any]):
    """A cursor that checks every statement before and after it runs."""

    connection: "StrictConnection"

    def execute(self, query: Any, params: Any = None, **options: Any) -> "StrictCursor":
        """Run a statement."""
        text = self.connection.checked(_text(query))
        super().execute(text, params, **options)
        self.connection.count(text, self.rowcount)
        return self

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        """Run a statement several times."""
        text = self.connection.checked(_text(query))
        super().executemany(text, params_seq, **options)
        self.connection.count(text, self.rowcount)


class StrictConnection(psycopg.Connection[Any]):
    """A connection with the state of the current transaction.

    Attributes:
        conflicts: The number of commits that are going to be refused because of a conflict.
        largest: The most rows that a transaction has written.
    """

    conflicts: ClassVar[int] = 0
    largest: ClassVar[int] = 0

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.cursor_factory = StrictCursor
        self._ddl = False
        self._rows: int | None = None

    def cursor(self, name: str = "", **options: Any) -> Any:
        """Return a cursor; the documented statements have no DECLARE."""
        if name:
            raise errors.FeatureNotSupported("unsupported statement: DECLARE")
        return super().cursor(**options)

    def checked(self, text: str) -> str:
        """Return a statement as PostgreSQL understands it.

        Raises:
            psycopg.Error: Aurora DSQL does not support it, or not in this transaction.
        """
        if self.autocommit:
            self._begin()
        plain = re.sub(r"\s+", " ", re.sub(r"--[^\n]*|/\*.*?\*/", " ", text)).strip()
        is_ddl = bool(_DDL.match(plain))
        if not _SUPPORTED.match(plain):
            raise errors.FeatureNotSupported(f"unsupported statement: {plain[:40]}")
        if is_ddl and self._ddl:
            raise errors.FeatureNotSupported("multiple ddl statements are not supported in a transaction")
        if (is_ddl and self._rows is not None) or (self._ddl and not is_ddl and _WRITING.match(plain)):
            raise errors.FeatureNotSupported("ddl and dml are not supported in the same transaction")
        _check_ddl(plain)
        if _LOCK.search(plain) and not re.search(r"WHERE \S+ = ", plain):
            raise errors.FeatureNotSupported("FOR UPDATE requires equality predicates on the key")
        self._ddl = self._ddl or is_ddl
        if plain.startswith("AWS IAM GRANT"):
            if not (granted := _IAM_GRANT.fullmatch(plain)):
                raise errors.SyntaxError(f"IAM role must look like an IAM ARN: {plain}")
            return f"INSERT INTO sys.iam_pg_role_mappings VALUES ('{granted[2]}', '{granted[1]}'::regrole::text)"
        return text.replace("INDEX ASYNC ", "INDEX ", 1) if is_ddl else text

    def count(self, text: str, rows: int) -> None:
        """Count the rows that a statement has written.

        Raises:
            psycopg.Error: They are too many for one transaction.
        """
        if not _WRITING.match(text.lstrip()):
            return
        self._rows = (self._rows or 0) + max(0, rows)
        StrictConnection.largest = max(StrictConnection.largest, self._rows)
        if self._rows > ROWS:
            raise errors.ProgramLimitExceeded("transaction row limit exceeded")

    def commit(self) -> None:
        """Commit, unless a test wants a conflict."""
        if StrictConnection.conflicts and self._rows:
            StrictConnection.conflicts -= 1
            super().rollback()
            self._begin()
            raise errors.SerializationFailure("change conflicts with another transaction, please retry: (OC000)")
        super().commit()
        self._begin()

    def rollback(self) -> None:
        """Undo the transaction."""
        super().rollback()
        self._begin()

    def _begin(self) -> None:
        self._ddl, self._rows = False, None


class StrictDialect(DsqlDialect):
    """The product's dialect; the first label of the host is the schema on a local server."""

    server: ClassVar[str] = ""
    supports_statement_cache = True

    def connect(self, *_: Any, **options: Any) -> Any:
        """Connect to the local server, with the isolation of Aurora DSQL."""
        query = make_url(self.server).query
        search = f"-csearch_path={options['host'].partition('.')[0]}"
        isolation = "-cdefault_transaction_isolation=repeatable\\ read"
        return StrictConnection.connect(
            host=str(query["host"]),
            user="postgres" if options["user"] == ADMIN else options["user"],
            dbname=options["dbname"],
            options=f"{search} {isolation}",
            prepare_threshold=options["prepare_threshold"],
        )


@contextmanager
def strict_dsql(server: str) -> Iterator[None]:
    """Let every cluster be a schema of a server.

    Args:
        server: URL of a PostgreSQL server.
    """
    StrictDialect.server = server
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(_MAPPINGS)
    registry.register("dsql.psycopg", __name__, "StrictDialect")
    try:
        yield
    finally:
        registry.register("dsql.psycopg", "traingrid.catalog.dsql", "DsqlDialect")


def _text(query: Any) -> str:
    return query.decode() if isinstance(query, bytes) else str(query)


def _check_ddl(plain: str) -> None:
    if plain.startswith("CREATE TABLE") and _NOT_IN_TABLES.search(plain):
        raise errors.FeatureNotSupported(f"unsupported in CREATE TABLE: {plain[:200]}")
    if plain.startswith("ALTER TABLE") and (not _ACTION.fullmatch(plain) or _CONSTRAINT.search(plain)):
        raise errors.FeatureNotSupported(f"unsupported ALTER TABLE: {plain}")
