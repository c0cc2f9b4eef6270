import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.core.botocore_stubber import BotocoreStubber

from tests.support.process import log, logging_as_before
from tests.support.sample_deployment import SAMPLE, sample_deployment
from tests.support.sample_grid import GOOD
from tests.support.shared_models import shared_models
from traingrid.aws.s3 import Storage
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job, JobReplica
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from verification.model.table import ModelTable

__all__ = ["log", "logging_as_before"]


@pytest.fixture(scope="module", autouse=True)
def service_models() -> Iterator[None]:
    """Share botocore's models between the tests of a process."""
    with shared_models():
        yield


@pytest.fixture
def deployment() -> Deployment:
    return sample_deployment()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> Iterator[None]:
    """An empty account, in this process, with the deployment's bucket and table."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    _answer_one_request_at_a_time(monkeypatch)
    with mock_aws():
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket=deployment.manifest_bucket)
        s3.put_bucket_versioning(Bucket=deployment.manifest_bucket, VersioningConfiguration={"Status": "Enabled"})
        boto3.client("dynamodb").create_table(
            TableName=deployment.table,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "submission", "KeyType": "HASH"},
                {"AttributeName": "item", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "submission", "AttributeType": "S"},
                {"AttributeName": "item", "AttributeType": "S"},
            ],
        )
        yield


def _answer_one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make conditional writes atomic, as in AWS: moto checks the condition in one step, and writes in another."""
    answer, lock = BotocoreStubber.process_request, threading.RLock()

    def process_request(stubber: BotocoreStubber, request: Any) -> Any:
        with lock:
            return answer(stubber, request)

    monkeypatch.setattr(BotocoreStubber, "process_request", process_request)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModelTable:
    """The ledger's table in memory, because most tests need its content, and moto takes milliseconds for each call.

    tests/unit/ledger compares it with moto's DynamoDB; tests that need DynamoDB itself override this fixture.
    """
    memory = ModelTable(lambda _service, _operation, effect: effect(), lambda _old, _new: None)
    monkeypatch.setattr("traingrid.ledger.ledger.Table", lambda *_: memory)
    return memory


@pytest.fixture
def ledger(table: object, deployment: Deployment) -> Ledger:
    return Ledger(deployment.table)


@pytest.fixture
def storage(aws: None) -> Storage:
    return Storage()


@pytest.fixture
def job(deployment: Deployment) -> Job:
    """The first job of the sample manifest."""
    return jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")[0]


@pytest.fixture
def roaming(job: Job) -> Job:
    """The job with its data in two more Regions."""
    there = JobReplica(inputs=job.inputs, output=job.output, image=job.image)
    return job.model_copy(update={"replicas": {"eu-west-1": there, "us-west-2": there}, "retries": 0})


@pytest.fixture
def grid(tmp_path: Path) -> GridSettings:
    """The grid of the valid grid.yaml."""
    (tmp_path / "grid.yaml").write_text(GOOD)
    return load_grid(tmp_path / "grid.yaml")
