"""Buckets, tables and image repositories."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.aws import Aws

IMAGE_TAG = "python"


def bucket(aws: Aws, region: str = "", *, events: bool = False) -> str:
    """Create a versioned bucket, optionally with events to EventBridge, and return its name."""
    region, name = region or aws.home, aws.name("bucket")
    s3 = aws.client("s3", region)
    where: dict[str, Any] = {"CreateBucketConfiguration": {"LocationConstraint": region}}
    aws.undo.later(f"bucket {name}", lambda: _empty_and_delete(s3, name))
    s3.create_bucket(Bucket=name, **({} if region == "us-east-1" else where))
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": aws.tags()})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    if events:
        s3.put_bucket_notification_configuration(
            Bucket=name, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
    return name


def _empty_and_delete(s3: Any, name: str) -> None:
    with suppress(s3.exceptions.NoSuchBucket):
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for version in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
                s3.delete_object(Bucket=name, Key=version["Key"], VersionId=version["VersionId"])
        s3.delete_bucket(Bucket=name)


def shared_bucket(aws: Aws, region: str = "") -> str:
    """Return a bucket in a Region that claims share; each claim uses different keys."""
    region = region or aws.home
    return aws.once(f"bucket/{region}", lambda: bucket(aws, region))


def table(aws: Aws, key: str = "") -> str:
    """Return the table that claims share, with the keys `pk` and `sk`; each claim uses different items.

    With the ARN of a KMS key, it is a new table that is encrypted with the key.
    """
    if key:
        return _table(aws, SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key})
    return aws.once("table", lambda: _table(aws))


def table_with_stream(aws: Aws) -> tuple[str, str]:
    """Return the name and the stream of another table, whose stream has the keys of changed items; claims share it."""

    def make() -> tuple[str, str]:
        name = _table(aws, StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
        described = aws.client("dynamodb").describe_table(TableName=name)["Table"]
        return name, str(described["LatestStreamArn"])

    return aws.once("table with a stream", make)


def table_with_index(aws: Aws) -> str:
    """Return another table, which has the index `small` with its keys and the attribute `v`; claims share it."""
    keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["v"]}
    index = {"IndexName": "small", "KeySchema": keys, "Projection": projection}
    return aws.once("table with an index", lambda: _table(aws, GlobalSecondaryIndexes=[index]))


def own_table(aws: Aws) -> str:
    """Return a new table without indexes, with the keys `pk` and `sk`."""
    return _table(aws)


def _table(aws: Aws, **more: Any) -> str:
    dynamodb, name = aws.client("dynamodb"), aws.name("table")
    aws.undo.later(f"table {name}", lambda: dynamodb.delete_table(TableName=name))
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        Tags=aws.tags(),
        **more,
    )
    dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2})
    return name


def repository(aws: Aws, region: str = "", *, name: str = "", immutable: bool = False) -> str:
    """Create an image repository and return its name."""
    ecr, name = aws.client("ecr", region), name or aws.name("images")
    aws.undo.later(f"repository {name}", lambda: ecr.delete_repository(repositoryName=name, force=True))
    mutability = "IMMUTABLE" if immutable else "MUTABLE"
    ecr.create_repository(repositoryName=name, tags=aws.tags(), imageTagMutability=mutability)
    return name


def image(aws: Aws, region: str = "") -> str:
    """Return the URI of an image with Python in a Region, which claims share."""
    region = region or aws.home

    def make() -> str:
        name = repository(aws, region)
        aws.place.copy_image(aws.client("ecr", region), name, IMAGE_TAG)
        return f"{aws.account}.dkr.ecr.{region}.amazonaws.com/{name}:{IMAGE_TAG}"

    return aws.once(f"image/{region}", make)
