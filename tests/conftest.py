"""Fixtures of all tests of the control plane."""

from functools import cache

import botocore.session
import pytest
from hypothesis import settings

# An example may take any time: these tests share their processors with others.
settings.register_profile("traingrid", deadline=None)
settings.load_profile("traingrid")


@pytest.fixture(scope="session", autouse=True)
def service_models() -> None:
    """Read each service model of botocore once per process.

    By default each boto3 session reads them again, which takes most of the time of a test with an AWS client: moto's
    `mock_aws` discards the default session.
    """
    botocore.session.create_loader = cache(botocore.session.create_loader)
