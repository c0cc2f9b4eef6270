from typing import Any

import boto3
import pytest

from tests.support.copies import CONTENT, SOURCE, SOURCE_REGION, TARGET, TARGET_REGION, upload
from tests.support.sample_deployment import sample_deployment
from tests.support.sample_job import sample_job
from traingrid.job.job import Job
from traingrid.ledger.moves import Moves
from verification.model.table import ModelTable


@pytest.fixture
def s3(aws: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """S3 with the data of a line in another Region."""
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    client: Any = boto3.client("s3", SOURCE_REGION)
    client.create_bucket(Bucket=SOURCE.bucket)
    client.create_bucket(Bucket=TARGET.bucket, CreateBucketConfiguration={"LocationConstraint": TARGET_REGION})
    upload(client, CONTENT)
    return client


@pytest.fixture
def moves(table: ModelTable, monkeypatch: pytest.MonkeyPatch) -> Moves:
    monkeypatch.setattr("traingrid.ledger.moves.Table", lambda *_: table)
    return Moves(sample_deployment().table)


@pytest.fixture
def moving() -> Job:
    """A job whose data is copied first."""
    return sample_job(TARGET_REGION).model_copy(update={"copy_from": str(SOURCE), "copy_to": str(TARGET)})
