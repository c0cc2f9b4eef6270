from typing import Any

import boto3
import pytest

from tests.support.copies import SOURCE, SOURCE_REGION, TARGET, TARGET_REGION


@pytest.fixture
def s3(aws: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """S3 with the data buckets of two Regions, in which a part may have any size."""
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    client: Any = boto3.client("s3", SOURCE_REGION)
    client.create_bucket(Bucket=SOURCE.bucket)
    where = {"LocationConstraint": TARGET_REGION}
    client.create_bucket(Bucket=TARGET.bucket, CreateBucketConfiguration=where)
    return client
