"""Copy source reader: validates the folder that a line's data is copied from, and the folder that it is copied to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.manifest.problem import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.manifest.allowed import Rules

_FOLDER = "Write s3://bucket/prefix, a folder in a data bucket of another Region of this grid."


def copy_source(uri: object, region: str, row: Mapping[str, Any], rules: Rules) -> S3Uri:
    """Return the folder of `copy_from`.

    Args:
        uri: The value of the field.
        region: The line's Region, into which the folder is copied.
        row: The values of all fields of the line.
        rules: The allow-lists of the deployment.

    Raises:
        RefusedError: The grid or the line does not allow the copy.
    """
    if not rules.grid.moves:
        next_step = "Write `moves: true` in grid.yaml and deploy, or remove copy_from."
        raise RefusedError("this grid does not copy data between Regions", next_step)
    for excluded in ("inputs", "replicas"):
        if row.get(excluded) not in (None, "", {}):
            raise RefusedError(f"copy_from and {excluded} cannot be combined", "Remove one of them.")
    if region not in rules.grid.regions:
        return rules.data(uri, region, _FOLDER)  # the error of the Region is enough
    _check_target(row.get("s3_uri"), region, rules)
    return _source(uri, region, rules)


def _check_target(uri: object, region: str, rules: Rules) -> None:
    """Raise an error unless the line's data is in a folder of the grid's own bucket, to which a child may write."""
    bucket = names.data_bucket(rules.grid.name, rules.deployment.account_of(region), region)
    next_step = f"Write s3_uri s3://{bucket}/folder, the folder to copy to."
    target = rules.data(uri, region, next_step) if uri else None
    if target is None or target.bucket != bucket or not target.key:
        raise RefusedError(f"data is copied only to a folder of the grid's own data bucket, {bucket}", next_step)


def _source(uri: object, region: str, rules: Rules) -> S3Uri:
    """Return a folder in another Region whose data may be copied to this one."""
    parsed = rules.data(uri, "", _FOLDER)  # without a Region: any bucket
    source = rules.buckets.get(parsed.bucket)
    if source is None:
        next_step = "Add it to data_buckets of its Region in grid.yaml and deploy, or name one of the grid's own."
        raise RefusedError(f"this grid may not read the bucket {parsed.bucket}", next_step)
    if source == region:
        reason = f"the bucket {parsed.bucket} is in {region} already"
        raise RefusedError(reason, "Write this URI as s3_uri, and remove copy_from.")
    other_accounts = sorted({source, region} & rules.grid.other_accounts().keys())
    if other_accounts:
        reason = f"{other_accounts[0]} is in another account than the home Region"
        raise RefusedError(reason, "Copy the data by other means, and remove copy_from.")
    if not rules.grid.may_hold(region, source):
        areas = ", ".join(rules.grid.regions[source].residency)
        reason = f"grid.yaml allows the data of {source} only in {areas}, not in {region}"
        raise RefusedError(reason, f"Train in {source}, or change `residency` of {source} in grid.yaml and deploy.")
    if not parsed.key:
        raise RefusedError("must name a folder in the bucket", _FOLDER)
    return parsed
