from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from tests.domain.deployments import sample_deployment
from traingrid.deployment import Deployment
from traingrid.ledger import Ledger
from traingrid.storage import Storage


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


@pytest.fixture
def ledger(aws: None, deployment: Deployment) -> Ledger:
    return Ledger(deployment.table)


@pytest.fixture
def storage(aws: None) -> Storage:
    return Storage()
