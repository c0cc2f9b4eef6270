from collections.abc import Iterator

import pytest

from tests.unit.conftest import aws, deployment, job, ledger, storage
from tests.unit.handlers.cloudformation import CloudFormation

__all__ = ["aws", "deployment", "job", "ledger", "storage"]


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    it = CloudFormation()
    yield it
    it.close()
