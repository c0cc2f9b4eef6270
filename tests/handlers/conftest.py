from collections.abc import Iterator

import pytest

from tests.domain.conftest import aws, deployment, job, ledger, storage
from tests.handlers.cloudformation import CloudFormation

__all__ = ["aws", "deployment", "job", "ledger", "storage"]


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    it = CloudFormation()
    yield it
    it.close()
