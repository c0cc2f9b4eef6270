"""Server secret: the secret access key of every user of the server that runs in this process."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

DUMMY_KEY = "localcloud"
"""Access key id of every user of a localcloud server; the secret is the server's.
Followed by a hyphen and 12 digits, it is the key of another account's user: an account exists from the first call with
its key."""

RANDOM_SECRET = secrets.token_urlsafe(32)
"""256 random bits: the secret of the servers of this process, which run one at a time. All of them share it, because
boto3's default session reads the environment's keys only once."""

_issued: list[str] = []


@contextmanager
def issued(secret: str) -> Iterator[None]:
    """Set the secret of this process's server while the block runs."""
    _issued.append(secret)
    try:
        yield
    finally:
        _issued.remove(secret)


def server_secret() -> str:
    """Return the secret of the server that runs in this process.

    Raises:
        RuntimeError: If no server runs in this process; the state file contains the secret of another process's server.
    """
    if not _issued:
        message = "no localcloud runs in this process; lifecycle.status() returns the secret of another server"
        raise RuntimeError(message)
    return _issued[-1]
