from collections.abc import Iterator

import pytest

from localcloud.lambda_.runtime import set_up_logging
from tests.unit.conftest import aws, deployment, job, ledger, storage
from tests.unit.handlers.cloudformation import CloudFormation

__all__ = ["aws", "deployment", "job", "ledger", "storage"]


@pytest.fixture(autouse=True)
def _runtime() -> None:
    """The log of a function's runtime; a handler's log lines are on standard output."""
    set_up_logging("JSON", "INFO")


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    it = CloudFormation()
    yield it
    it.close()
