"""Database: opens a catalog, creates or upgrades its tables, and writes to it."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.exc import DBAPIError, OperationalError

from traingrid.backoff import backoff_seconds
from traingrid.catalog.dsql import is_limited
from traingrid.catalog.engines import reader, writer
from traingrid.errors import TraingridError

_Result = TypeVar("_Result")
_VERSION_TABLE = "alembic_version"
_MIGRATIONS = Path(__file__).parent / "migrations"
_TRIES, _MAX_WAIT = 5, 8.0
_SERIALIZATION_FAILURE = "40001"
"""The SQLSTATE of a transaction that should be repeated
(https://www.postgresql.org/docs/15/errcodes-appendix.html). Aurora DSQL reports every conflict with it, also those with
a change of the tables (https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-concurrency-control.html)."""


class Catalog:
    """A catalog's database. It keeps no connection open.

    Args:
        url: Its URL (`catalog_url`).
        sleep: Waits between the tries of a transaction.

    Attributes:
        name: Its URL without a password, for messages.
    """

    def __init__(self, url: URL, sleep: Callable[[float], None] = time.sleep) -> None:
        self.engine = writer(url)
        self._reader = reader(url)
        self.name = url.render_as_string(hide_password=True).replace("+psycopg", "").replace("+pysqlite", "")
        self._sleep = sleep

    def create(self) -> bool:
        """Create the tables, or upgrade the tables of an earlier version; return False if they are current.

        Raises:
            TraingridError: The database does not answer, or a newer version of traingrid has written it.
        """
        return self._repeat(self._create)

    def check(self) -> None:
        """Check that the tables have the form that this version of traingrid uses.

        Raises:
            TraingridError: The database does not answer, has no tables, or has the tables of another version.
        """
        if self.engine.dialect.name == "sqlite" and not Path(str(self.engine.url.database)).exists():
            raise TraingridError(f"The catalog {self.name} does not exist.", "Create it: traingrid catalog init.")
        with self.read_only() as connection:
            revision = self._revision(connection)
        if revision is None:
            raise TraingridError(f"The catalog {self.name} has no tables.", "Create them: traingrid catalog init.")
        if revision != _revisions()[-1]:
            message = f"The tables of the catalog {self.name} are of an earlier version of traingrid ({revision})."
            raise TraingridError(message, "Upgrade them: traingrid catalog init.")

    @contextmanager
    def read_only(self) -> Iterator[Connection]:
        """Return a connection that the database itself prevents from writing.

        Raises:
            TraingridError: The database does not answer.
        """
        if self.engine.dialect.name == "sqlite" and Path(f"{self.engine.url.database}-journal").exists():
            self.write(lambda _: None)  # undoes the transaction of a killed process, which a reader cannot do
        with answers(self.name), self._reader.connect() as connection:
            yield connection

    def write(self, change: Callable[[Connection], _Result]) -> _Result:
        """Run a change in a transaction, and repeat it if the database reports a conflict with another one.

        Return the result of the change.

        In Aurora DSQL, a change of more than 1,000 rows has several transactions (`batches`).

        Args:
            change: Writes the change; it may run several times.

        Raises:
            TraingridError: The database does not answer, or reports conflicts again and again.
        """
        return self._repeat(lambda: self._write(change))

    def _create(self) -> bool:
        with answers(self.name), self.engine.connect() as connection:
            if is_limited(connection):
                # A transaction has one statement that changes tables, and no other one
                # (https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-ddl.html).
                connection.execution_options(isolation_level="AUTOCOMMIT")
            if self._revision(connection) == _revisions()[-1]:
                return False
            _upgrade(connection)
            connection.commit()
            return True

    def _write(self, change: Callable[[Connection], _Result]) -> _Result:
        with answers(self.name), self.engine.connect() as connection:
            connection.begin()
            result = change(connection)
            connection.commit()
            return result

    def _repeat(self, action: Callable[[], _Result]) -> _Result:
        for tries in range(1, _TRIES + 1):
            try:
                return action()
            except ConflictError:
                self._sleep(backoff_seconds(tries, _MAX_WAIT))
        raise TraingridError(
            f"The catalog {self.name} reported a conflict with another transaction {_TRIES} times.",
            "Run the command again when the other one has ended.",
        )

    def _revision(self, connection: Connection) -> str | None:
        """Return the revision of the tables, or None if there are none.

        Raises:
            TraingridError: It is unknown, so a newer version of traingrid has written it.
        """
        if not inspect(connection).has_table(_VERSION_TABLE):
            return None
        revision = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()  # noqa: S608  # a constant
        if revision is not None and revision not in _revisions():
            message = f"The tables of the catalog {self.name} are of a newer version of traingrid ({revision})."
            raise TraingridError(message, "Install that version, or use another catalog.")
        return revision


class ConflictError(TraingridError):
    """The database ended a transaction because of another one; repeating it may succeed."""


@contextmanager
def answers(name: str) -> Iterator[None]:
    """Convert the database's errors.

    Raises:
        TraingridError: The database does not answer, or refuses a statement.
    """
    try:
        yield
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", "") == _SERIALIZATION_FAILURE:
            message = f"The catalog {name} reported a conflict with another transaction."
            raise ConflictError(message, "Run the command again when the other one has ended.") from error
        reason = reason_of(error)
        if isinstance(error, OperationalError):
            step = (
                "Check the path and its permissions."
                if name.startswith("sqlite")
                else "Check that it runs, and its URL."
            )
            raise TraingridError(f"The catalog {name} cannot be used: {reason}.", step) from error
        raise TraingridError(f"The catalog {name} refused a statement: {reason}.") from error


def reason_of(error: DBAPIError) -> str:
    """Return a database's reason for an error in one line, without a full stop."""
    return re.sub(r"\s+", " ", str(error.orig)).strip().rstrip(".")


def _revisions() -> list[str]:
    """Return the revisions of the migrations, oldest first: the numbers of their files."""
    return sorted(path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def _upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that are missing up to a revision, in the transaction of a connection."""
    from alembic import command  # noqa: PLC0415  # 0.4 s of imports that other commands do not need
    from alembic.config import Config  # noqa: PLC0415  # as above

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
