"""State file of a server: address, process and secret, in its folder, readable by its user only."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO


class FolderInUseError(OSError):
    """Another server runs in the folder."""


@dataclass(frozen=True)
class Running:
    """A server that was started and has not been stopped.

    Attributes:
        secret: The secret access key of its users.
    """

    pid: int
    endpoint: str
    data_dir: str
    secret: str = field(repr=False)


class OpenFolderError(OSError):
    """Other users can read the folder, and it has files of something else than localcloud."""


def make_private(data_dir: Path) -> None:
    """Make the folder of a server, or one of an earlier server, accessible to its user only.

    Raises:
        OpenFolderError: The folder is not a server's, so its permissions are not changed.
        OSError: The folder cannot be created, or belongs to another user.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not data_dir.stat().st_mode & 0o077:
        return
    if not _lock_file(data_dir).exists() and any(data_dir.iterdir()):
        message = f"other users can access {data_dir}, which has other files; use a new folder, or chmod 700 {data_dir}"
        raise OpenFolderError(message)
    data_dir.chmod(0o700)


def read_state(data_dir: Path) -> Running | None:
    """Return the state of a folder's server; None if it was stopped or never started."""
    try:
        return Running(**json.loads(_path(data_dir).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_state(running: Running) -> None:
    """Write the state file atomically and with restricted permissions from the start."""
    path = _path(Path(running.data_dir))
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(running), file)
    new.replace(path)


def remove_state(data_dir: Path) -> None:
    """Remove the state file when the server stops."""
    _path(data_dir).unlink(missing_ok=True)


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Hold the lock of a server's folder; the kernel releases it when the process ends for any reason.

    Raises:
        FolderInUseError: If another process holds it.
    """
    with _lock_file(data_dir).open("a+") as file:
        if not _is_taken(file):
            pid = _pid_in(file)
            message = f"process {pid} already runs in {data_dir}, and a folder can have only one server"
            raise FolderInUseError(message)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def holder_of(data_dir: Path) -> int | None:
    """Return the process of the server that runs in a folder, even if it does not answer.

    Returns:
        The process id; 0 while a server is starting; None if no server runs there.
    """
    try:
        with _lock_file(data_dir).open("r+") as file:
            return None if _is_taken(file) else _pid_in(file)
    except FileNotFoundError:
        return None


def _is_taken(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_in(file: TextIO) -> int:
    file.seek(0)
    return int(file.read() or 0)


def _path(data_dir: Path) -> Path:
    return data_dir.resolve() / "server.json"


def _lock_file(data_dir: Path) -> Path:
    return data_dir.resolve() / "server.lock"
