"""SageMaker's quotas on training instances: one for each instance type, on demand and spot."""

from binascii import crc32
from functools import cache
from typing import Any

import boto3

from localcloud.limits.quota import NO_INSTANCES, Quota

UNLIMITED = 10_000
"""The limit of each instance type in the profile `grown`; no test reaches it."""


def quota_name(instance_type: str, *, spot: bool) -> str:
    """Return the name of a quota (https://docs.aws.amazon.com/general/latest/gr/sagemaker.html)."""
    return f"{instance_type} for {'spot training' if spot else 'training'} job usage"


@cache
def training_quotas() -> dict[str, Quota]:
    """Return SageMaker's quotas on training instances by name.

    Their codes are specific to localcloud, because AWS publishes no list of them. The default is 0 although AWS
    documents larger values for some types, because new accounts report 0.
    """
    model: Any = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    types = model.shape_for("TrainingInstanceType").enum
    quotas = (_quota(quota_name(kind, spot=spot)) for kind in types for spot in (False, True))
    return {quota.name: quota for quota in quotas}


def _quota(name: str) -> Quota:
    return Quota(
        service="sagemaker",
        service_name="Amazon SageMaker",
        code=f"L-{crc32(name.encode()):08X}",
        name=name,
        default=0,
        young=0,
        grown=UNLIMITED,
        sources=(NO_INSTANCES,),
    )
