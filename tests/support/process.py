"""Process: fixtures of unit, integration and e2e tests. Tests of the training image have another environment."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.recorded_log import RecordedLog, recorded_log

# An example may take any time: these tests share their processors with others.
settings.register_profile("traingrid", deadline=None)
settings.load_profile("traingrid")

_CONFIGURED = ("", "traingrid", "boto3", "botocore", "botocore.retries", "botocore.retryhandler")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo the set-up of logging by a command or a child that runs in the test's process."""
    handlers, levels = list(logging.root.handlers), {name: logging.getLogger(name).level for name in _CONFIGURED}
    yield
    for handler in set(logging.root.handlers) - set(handlers):
        logging.root.removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def log() -> Iterator[RecordedLog]:
    """The log lines of the test."""
    with recorded_log() as recorded:
        yield recorded
