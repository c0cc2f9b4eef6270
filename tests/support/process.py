"""Process: fixtures of unit, integration and e2e tests. Tests of the training image have another environment."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings

from tests.support.recorded_log import RecordedLog, recorded_log

# An example may take any time: these tests share their processors with others.
settings.register_profile("traingrid", deadline=None)
settings.load_profile("traingrid")

_LIBRARIES = ("boto3", "botocore", "botocore.retries", "botocore.retryhandler", "s3transfer", "urllib3")
_CONFIGURED = ("", "traingrid", *_LIBRARIES)
_LEVELS = {name: logging.getLogger(name).level for name in _CONFIGURED}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo the set-up of logging by a command or a child that runs in the test's process."""
    with restored_logging():
        yield


@contextmanager
def restored_logging() -> Iterator[None]:
    """Undo the set-up of logging by a command, also of one that a module's fixture runs.

    Such a fixture may have run before the first test of the module; the levels are therefore those of the process's
    start, not of the test's. Otherwise a later file of the same worker would find other levels.
    """
    handlers = list(logging.root.handlers)
    _restore_levels()
    yield
    for handler in set(logging.root.handlers) - set(handlers):
        logging.root.removeHandler(handler)
    _restore_levels()


def _restore_levels() -> None:
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def log() -> Iterator[RecordedLog]:
    """The log lines of the test."""
    with recorded_log() as recorded:
        yield recorded
