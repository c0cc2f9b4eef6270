import sys
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.localcloud.training_side import SageMaker


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A running localcloud with short delays, empty at the start of every test module."""
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("localcloud"),
        batch_stop_grace_seconds=2.0,
        training_stop_grace_seconds=2.0,
        lambda_retry_delays_seconds=(0.1, 0.1),
    )
    with LocalCloud(settings) as running:
        yield running


@pytest.fixture(scope="module")
def client(cloud: LocalCloud) -> Callable[..., Any]:
    """Return a boto3 client of the running localcloud, for example client("batch", "eu-west-1")."""
    session: Any = boto3.Session(aws_access_key_id=DUMMY_KEY, aws_secret_access_key=cloud.secret)

    def make(service: str, region: str = "us-east-1", config: Config | None = None) -> Any:
        return session.client(service, region_name=region, endpoint_url=cloud.endpoint_url, config=config)

    return make


@pytest.fixture(scope="module")
def sagemaker(cloud: LocalCloud, client: Callable[..., Any]) -> SageMaker:
    return SageMaker(client)


@pytest.fixture
def frequent_thread_switches() -> Iterator[None]:
    """Switch between threads after almost every instruction; the server's threads run in this process too."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
