"""Products of the price lists of SageMaker and of data transfer, in the form of AWS's replies.

The attributes of an ML instance are those that https://github.com/vantage-sh/ec2instances.info reads
(scraper/aws/sagemaker.go, sagemaker.py); the form of terms is that of a recorded reply in
https://github.com/aws/aws-sdk-java/issues/2190.
"""

from base64 import b32encode
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from itertools import permutations
from typing import Any

from localcloud.pricing.example_prices import ABSENT, COMPONENTS, PUBLISHED, REGIONS, TYPES

_OFFER, _RATE = "JRTCKXETXF", "6YS6EN2CT7"
"""AWS's codes of an offer on demand and of its rate."""
_REGION = "AWS Region"

Product = dict[str, Any]


@cache
def price_list(service: str) -> tuple[Product, ...] | None:
    """Return the products of a service code; None if localcloud has none."""
    reader = {"AmazonSageMaker": _sagemaker, "AWSDataTransfer": _transfer}.get(service)
    return tuple(reader()) if reader else None


def _sagemaker() -> Iterator[Product]:
    for region, place in REGIONS.items():
        for kind, (dollars, vcpus, memory) in TYPES.items():
            for component, (word, ratio) in COMPONENTS.items():
                if (region, kind) in ABSENT:
                    continue
                attributes = {
                    "servicecode": "AmazonSageMaker",
                    "servicename": "Amazon SageMaker",
                    "location": place.location,
                    "locationType": _REGION,
                    "regionCode": region,
                    "instanceName": kind,
                    "instanceType": kind,
                    "component": component,
                    "platoinstancetype": component,
                    "platoinstancename": kind.split(".")[1],
                    "vCpu": str(vcpus),
                    "memory": f"{memory} GiB",
                    "usagetype": f"{place.prefix}-{word}:{kind}",
                    "operation": "RunInstance",
                }
                yield _product("AmazonSageMaker", "ML Instance", attributes, dollars * place.ratio * ratio, "Hrs")


def _transfer() -> Iterator[Product]:
    for (from_region, source), (to_region, target) in permutations(REGIONS.items(), 2):
        for direction, dollars in (("Out", source.transfer), ("In", 0.0)):
            first, second = (source, target) if direction == "Out" else (target, source)
            attributes = {
                "servicecode": "AWSDataTransfer",
                "servicename": "AWS Data Transfer",
                "transferType": f"InterRegion {direction}bound",
                "fromLocation": source.location,
                "fromLocationType": _REGION,
                "fromRegionCode": from_region,
                "toLocation": target.location,
                "toLocationType": _REGION,
                "toRegionCode": to_region,
                "usagetype": f"{first.prefix}-{second.prefix}-AWS-{direction}-Bytes",
                "operation": "",
            }
            yield _product("AWSDataTransfer", "Data Transfer", attributes, dollars, "GB")


def _product(service: str, family: str, attributes: Mapping[str, str], dollars: float, unit: str) -> Product:
    """Return a product; a SKU has 16 capital letters and digits."""
    identity = f"{service} {attributes['usagetype']}"
    sku = b32encode(sha256(identity.encode()).digest()).decode()[:16]
    published = PUBLISHED.isoformat().replace("+00:00", "Z")
    rate = {
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${dollars:.3f} per {unit} of {attributes['usagetype']} (example of localcloud)",
        "appliesTo": [],
        "rateCode": f"{sku}.{_OFFER}.{_RATE}",
        "pricePerUnit": {"USD": f"{dollars:.10f}"},
    }
    term = {
        "sku": sku,
        "offerTermCode": _OFFER,
        "effectiveDate": PUBLISHED.replace(day=1, hour=0).isoformat().replace("+00:00", "Z"),
        "termAttributes": {},
        "priceDimensions": {f"{sku}.{_OFFER}.{_RATE}": rate},
    }
    return {
        "product": {"productFamily": family, "attributes": dict(attributes), "sku": sku},
        "serviceCode": service,
        "terms": {"OnDemand": {f"{sku}.{_OFFER}": term}},
        "version": f"{PUBLISHED:%Y%m%d%H%M%S}",
        "publicationDate": published,
    }
