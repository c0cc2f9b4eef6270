"""Service Quotas: ListServiceQuotas of SageMaker, which moto 5.2.5 leaves out."""

import json
from binascii import crc32
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from moto.servicequotas.responses import ServiceQuotasResponse

if TYPE_CHECKING:
    from localcloud.server import LocalCloud

UNLIMITED = 10_000
"""What is said to be granted of an instance type of which no plan of faults sets a quota: nothing is refused then."""


def install(cloud: "LocalCloud") -> None:
    """Let moto's Service Quotas list what this cloud enforces."""

    def list_service_quotas(self: ServiceQuotasResponse) -> str:
        wanted = json.loads(self.body)
        quotas = _training(cloud, self.region) if wanted.get("ServiceCode") == "sagemaker" else []
        start = int(wanted.get("NextToken") or 0)
        end = start + int(wanted.get("MaxResults") or 100)
        more = {"NextToken": str(end)} if end < len(quotas) else {}
        return json.dumps({"Quotas": quotas[start:end], **more})

    ServiceQuotasResponse.list_service_quotas = list_service_quotas


def _training(cloud: "LocalCloud", region: str) -> list[dict[str, object]]:
    """Return a quota for every instance type of SageMaker's service model, on demand and spot."""
    found: list[dict[str, object]] = []
    for kind in _instance_types():
        limit = cloud.faults.quota(region, kind)
        for spot in ("", "spot "):
            name = f"{kind} for {spot}training job usage"
            found.append(
                {
                    "ServiceCode": "sagemaker",
                    "ServiceName": "Amazon SageMaker",
                    "QuotaCode": f"L-{crc32(name.encode()):08X}",
                    "QuotaName": name,
                    "Value": float(UNLIMITED if limit is None else limit),
                    "Adjustable": True,
                }
            )
    return found


@cache
def _instance_types() -> tuple[str, ...]:
    model: Any = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    return tuple(model.shape_for("TrainingInstanceType").enum)
