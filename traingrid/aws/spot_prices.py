"""Spot prices: reads the current prices of EC2's spot instances in a Region."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from statistics import fmean
from typing import TYPE_CHECKING

from traingrid.aws.clients import client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.aws.clients import ActingRole

PRODUCT = "Linux/UNIX"
"""The product description of instances whose operating system costs nothing."""


def spot_prices(region: str, instance_types: Sequence[str], role: ActingRole | None = None) -> dict[str, float]:
    """Return the spot prices of EC2's instance types in US dollars per hour: the mean of their Availability Zones.

    With the present as its start, the history contains the price in effect for each type and zone
    (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html).

    Args:
        instance_types: EC2's names, such as "g5.xlarge". A type that the Region lacks is absent from the result.
        role: The role to assume in another account.

    Raises:
        ClientError: AWS refuses the request.
        BotoCoreError: AWS does not answer.
    """
    filters = [
        {"Name": "instance-type", "Values": list(instance_types)},
        {"Name": "product-description", "Values": [PRODUCT]},
    ]
    history = client("ec2", region, role).get_paginator("describe_spot_price_history")
    latest_by_type: dict[str, dict[str, tuple[datetime, float]]] = defaultdict(dict)
    for page in history.paginate(Filters=filters, StartTime=datetime.now(UTC)):
        for entry in page["SpotPriceHistory"]:
            latest_by_zone, zone = latest_by_type[entry["InstanceType"]], entry["AvailabilityZone"]
            dated_price = (entry["Timestamp"], float(entry["SpotPrice"]))
            # The maximum is the latest: tuples compare by their time first.
            latest_by_zone[zone] = max(dated_price, latest_by_zone.get(zone, dated_price))
    return {
        instance_type: fmean(price for _, price in latest_by_zone.values())
        for instance_type, latest_by_zone in latest_by_type.items()
    }
