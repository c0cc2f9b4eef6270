"""A temporary PostgreSQL server of Debian's package, on a Unix socket, for tests and benchmarks of the catalog."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
_OWNER = "postgres"
_START_SECONDS = 60


class PostgresServer:
    """A server, which can be stopped and started again with the same data.

    Args:
        folder: The folder of its data, its log and its Unix socket.
        user: The number of the user that runs it; None for the user of this process.
    """

    def __init__(self, folder: Path, user: int | None) -> None:
        self._socket, self._user = folder, user
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        folder = self._socket
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        command = [str(_PROGRAMS[-1] / "postgres"), "-D", str(folder / "data"), *options]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=self._user, cwd=folder)
        _wait_until_ready(self, self._process, folder / "log")

    def stop(self) -> None:
        """Stop the server at once, as a crash does; connections are then refused."""
        if self._process:
            self._process.send_signal(signal.SIGQUIT)  # other signals write everything to the disk first
            self._process.wait(timeout=_START_SECONDS)
            self._process = None

    def url(self, schema: str = "public") -> str:
        """Return the URL of a catalog whose tables are in a schema."""
        return f"postgresql://{_OWNER}@/postgres?host={self._socket}&options=-csearch_path%3D{schema}"

    def new_schema(self) -> str:
        """Create an empty schema, which takes less time than a database, and return the URL of a catalog in it."""
        name = f"catalog{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.url(name)


def is_installed() -> bool:
    """Return True if Debian's package is installed."""
    return bool(_PROGRAMS)


@contextmanager
def running() -> Iterator[PostgresServer]:
    """Run a server with an empty data folder, which is deleted at the end.

    The server refuses to run as root, so root starts it as the user `postgres`.
    """
    # A Unix socket's path has at most 107 bytes (unix(7)), fewer than pytest's folders need.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    user = pwd.getpwnam(_OWNER).pw_uid if os.geteuid() == 0 else None
    try:
        if user is not None:
            os.chown(folder, user, -1)
        options = ["-U", _OWNER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        initdb = [str(_PROGRAMS[-1] / "initdb"), "-D", str(folder / "data"), *options]
        subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=folder)
        server = PostgresServer(folder, user)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _wait_until_ready(server: PostgresServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(server.url()).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from None
            time.sleep(0.05)
        else:
            return
