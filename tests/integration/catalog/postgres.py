"""A PostgreSQL server of Debian's package, started by the tests, on a Unix socket."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

_BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
_OWNER = "postgres"


class Postgres:
    """A running server. A test gets a schema, which is created faster than a database."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def url(self, schema: str = "public") -> str:
        return f"postgresql://{_OWNER}@/postgres?host={self._socket}&options=-csearch_path%3D{schema}"

    def new_schema(self) -> str:
        """Create an empty schema, and return the URL whose tables are in it."""
        name = f"catalog_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.url(name)


@contextmanager
def running() -> Iterator[Postgres]:
    """Run a server; skip the test if the package is not installed and this is not CI."""
    if not _BIN:
        if os.environ.get("CI"):
            pytest.fail("install PostgreSQL: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # The server refuses to run as root. A Unix socket's path has at most 107 bytes, fewer than pytest's folders need.
    owner = _OWNER if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if owner:
            shutil.chown(folder, owner)
        user = pwd.getpwnam(owner).pw_uid if owner else None
        data = folder / "data"
        options = ["-U", _OWNER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        initdb = [str(_BIN[-1] / "initdb"), "-D", str(data), *options]
        subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=folder)
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [_BIN[-1] / "postgres", "-D", data, *options], stdout=log, stderr=log, user=user, cwd=folder
            )
        try:
            yield _when_ready(Postgres(folder), server, folder / "log")
        finally:
            server.send_signal(signal.SIGQUIT)  # other signals write everything to the disk first
            server.wait(timeout=60)
    finally:
        shutil.rmtree(folder)


def _when_ready(server: Postgres, process: "subprocess.Popen[bytes]", log: Path) -> Postgres:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, log.read_text()
        try:
            psycopg.connect(server.url()).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return server
