"""Retained resources: finds the buckets, ledger and keys that remain when a grid's stacks are destroyed.

`cdk destroy` removes all other resources and does not list these. This module finds them by their names, and keys,
which have no names, by the grid's tag. So it also finds them after the stacks are gone, and in Regions that have left
the grid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy import prices
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traingrid.grid.model import GridSettings

_GB = 2**30
_MEASURED = timedelta(days=3)  # CloudWatch receives the sizes of buckets once a day, one day late
_STORAGE_CLASSES = (
    "StandardStorage",
    "IntelligentTieringFAStorage",
    "StandardIAStorage",
    "GlacierInstantRetrievalStorage",
)


@dataclass(frozen=True, kw_only=True)
class Retained:
    """A resource that is retained when its stack is deleted.

    Attributes:
        kind: Its type: bucket, table, cluster or key.
        name: Its name; the ARN of a key.
        holds: Its purpose.
        gigabytes: Its size; None if it is not known yet.
        dollars: Its monthly cost at the list prices of us-east-1; None if it is not known.
    """

    region: str
    kind: str
    name: str
    holds: str
    gigabytes: float | None = None
    dollars: float | None = None
    remove: str = ""


def retained(grid: GridSettings, account: str) -> list[Retained]:
    """Return the resources of a grid that are or were retained when its stacks are destroyed.

    Args:
        grid: The grid; only its name and Regions are used, and the Regions of its buckets are added.

    Raises:
        ClientError: The caller lacks a permission, or a Region is disabled.
    """
    buckets = sorted(_buckets(grid, account))
    regions = sorted({grid.home, *grid.regions, *(region for _, region, _ in buckets)})
    measured = map_in_order(lambda bucket: _bucket(*bucket), buckets, len(regions))
    keys = map_in_order(lambda region: list(_keys(grid, region)), regions, len(regions))
    return [*measured, *_ledger(grid), *_clusters(grid), *chain.from_iterable(keys)]


def _buckets(grid: GridSettings, account: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, Region and purpose of every bucket with a name of this grid."""
    purposes = {
        names.manifest_bucket: "manifests, reports and submissions",
        names.data_bucket: "uploaded data",
        names.output_bucket: "models, checkpoints and logs of training",
    }
    purpose_by_pattern = {
        re.compile(re.escape(name_of(grid.name, account, "@")).replace("@", r"([a-z]{2}(?:-[a-z]+)+-\d)")): holds
        for name_of, holds in purposes.items()
    }
    for page in client("s3", grid.home).get_paginator("list_buckets").paginate():
        for bucket in page["Buckets"]:
            for pattern, holds in purpose_by_pattern.items():
                if match := pattern.fullmatch(bucket["Name"]):
                    yield bucket["Name"], match[1], holds


def _bucket(name: str, region: str, holds: str) -> Retained:
    size = _size(name, region)
    code = f"b = boto3.resource('s3', '{region}').Bucket('{name}'); b.object_versions.delete(); b.delete()"
    return Retained(
        region=region,
        kind="bucket",
        name=name,
        holds=holds,
        gigabytes=size,
        dollars=None if size is None else size * prices.BUCKET_STORAGE.dollars,
        remove=f'python -c "import boto3; {code}"',
    )


def _size(bucket: str, region: str) -> float | None:
    """Return the last size of a bucket in CloudWatch, including old versions; None before the first measurement.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/metrics-dimensions.html
    """
    queries = [
        {
            "Id": f"class{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/S3",
                    "MetricName": "BucketSizeBytes",
                    "Dimensions": [
                        {"Name": "BucketName", "Value": bucket},
                        {"Name": "StorageType", "Value": storage_class},
                    ],
                },
                "Period": 86400,
                "Stat": "Average",
            },
        }
        for number, storage_class in enumerate(_STORAGE_CLASSES)
    ]
    now = datetime.now(UTC)
    metric_data = client("cloudwatch", region).get_metric_data(
        MetricDataQueries=queries, StartTime=now - _MEASURED, EndTime=now, ScanBy="TimestampDescending"
    )
    values: list[float] = [result["Values"][0] for result in metric_data["MetricDataResults"] if result["Values"]]
    if values:
        return float(sum(values)) / _GB
    return None if client("s3", region).list_object_versions(Bucket=bucket, MaxKeys=1).get("Versions") else 0.0


def _ledger(grid: GridSettings) -> Iterable[Retained]:
    """Return the ledger's table with its monthly cost and the command that deletes it; nothing without a table."""
    table, region = names.ledger(grid.name), grid.home
    dynamodb = client("dynamodb", region)
    try:
        description: dict[str, Any] = dynamodb.describe_table(TableName=table)["Table"]
    except dynamodb.exceptions.ResourceNotFoundException:
        return ()
    size = description.get("TableSizeBytes", 0) / _GB
    command = f"aws dynamodb {{}} --region {region} --table-name {table}"
    unprotected = command.format("update-table") + " --no-deletion-protection-enabled"
    return (
        Retained(
            region=region,
            kind="table",
            name=table,
            holds="the ledger: all jobs and their results",
            gigabytes=size,
            dollars=size * (prices.TABLE_STORAGE.dollars + prices.TABLE_RECOVERY.dollars),
            remove=f"{unprotected} && {command.format('delete-table')}",
        ),
    )


def _clusters(grid: GridSettings) -> Iterator[Retained]:
    """Yield the clusters of Aurora DSQL that deployments with `catalog: dsql` created."""
    for arn in _tagged_arns(grid, grid.home, "dsql:cluster"):
        identifier = names.name_of_arn(arn)
        command = f"aws dsql {{}} --region {grid.home} --identifier {identifier}"
        unprotected = command.format("update-cluster") + " --no-deletion-protection-enabled"
        yield Retained(
            region=grid.home,
            kind="cluster",
            name=identifier,
            holds="a catalog: campaigns, prices and runs",
            remove=f"{unprotected} && {command.format('delete-cluster')}",
        )


def _keys(grid: GridSettings, region: str) -> Iterator[Retained]:
    """Yield the keys that the grid's stacks created; customer keys given in grid.yaml do not belong to the grid."""
    for arn in _tagged_arns(grid, region, "kms:key"):
        description = _described_key(arn, region)
        if description and description["KeyState"] != "PendingDeletion":
            yield Retained(
                region=region,
                kind="key",
                name=arn,
                holds=f"encryption key: {description.get('Description') or 'the grid'}",
                dollars=prices.KEY.dollars,
                remove=f"aws kms schedule-key-deletion --region {region} --key-id {names.name_of_arn(arn)}",
            )


def _tagged_arns(grid: GridSettings, region: str, kind: str) -> list[str]:
    """Return the ARNs of a Region's resources of a type that have the grid's tag."""
    pages = (
        client("resourcegroupstaggingapi", region)
        .get_paginator("get_resources")
        .paginate(TagFilters=[{"Key": names.TAG_GRID, "Values": [grid.name]}], ResourceTypeFilters=[kind])
    )
    return sorted(resource["ResourceARN"] for page in pages for resource in page["ResourceTagMappingList"])


def _described_key(arn: str, region: str) -> dict[str, Any] | None:
    kms = client("kms", region)
    try:
        description: dict[str, Any] = kms.describe_key(KeyId=arn)["KeyMetadata"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NotFoundException":
            raise
        return None
    return description
