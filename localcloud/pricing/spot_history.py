"""Spot price history of EC2: example prices in three Availability Zones of each Region.

moto 5.2.5 reports the price 0.00001 of the year 2006 for each type, and ignores times and product descriptions.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import InvalidParameterValueError
from moto.ec2.responses.spot_instances import SpotInstances

from localcloud.pricing.example_prices import ABSENT, REGIONS, TYPES, WITHOUT_SPOT
from localcloud.sagemaker.job import SPOT_RATIO

PAGE = 1000
"""Prices of a page without MaxResults (API reference, DescribeSpotPriceHistory)."""
_PRODUCT = "Linux/UNIX"
_RATIOS = {"a": SPOT_RATIO, "b": SPOT_RATIO + 0.05, "c": SPOT_RATIO - 0.05}
"""The prices of the zones, as ratios of the example price on demand."""
_CHANGES = {timedelta(days=2): 1.25, timedelta(hours=3): 1.0}
"""The age of each change of the prices, and its factor."""


def history(region: str, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield all prices of a Region, with the newest first."""
    place = REGIONS.get(region)
    for age, factor in sorted(_CHANGES.items()):
        if place:
            for kind, example in TYPES.items():
                for zone, ratio in _RATIOS.items():
                    if place and (region, kind) not in ABSENT and kind not in WITHOUT_SPOT:
                        yield {
                            "AvailabilityZone": f"{region}{zone}",
                            "InstanceType": kind.removeprefix("ml."),
                            "ProductDescription": _PRODUCT,
                            "SpotPrice": f"{example.dollars * place.ratio * ratio * factor:.6f}",
                            "Timestamp": now - age,
                        }


def chosen(prices: Sequence[dict[str, Any]], selection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the prices in a range of times, and the ones in effect at its start (API reference).

    Args:
        prices: All prices, with the newest first.
        selection: The values of InstanceType, ProductDescription and AvailabilityZone, and `start` and `end`.
    """
    selected, effective = [], set()
    for price in prices:
        if any(values and price[name] not in values for name, values in selection.items() if name in price):
            continue
        if price["Timestamp"] > selection["end"]:
            continue
        key = price["AvailabilityZone"], price["InstanceType"]
        if price["Timestamp"] < selection["start"] and key in effective:
            continue
        if price["Timestamp"] < selection["start"]:
            effective.add(key)
        selected.append(price)
    return selected


_FILTERS = {
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
    "availability-zone": "AvailabilityZone",
}


def describe(self: SpotInstances) -> ActionResult:
    """Answer DescribeSpotPriceHistory."""
    now = datetime.now(UTC)
    selection: dict[str, Any] = {
        "InstanceType": set(self._get_param("InstanceTypes", [])),
        "ProductDescription": set(self._get_param("ProductDescriptions", [])),
        "start": _time(self._get_param("StartTime")) or now - timedelta(days=90),
        "end": _time(self._get_param("EndTime")) or now,
    }
    for name, values in self._filters_from_querystring().items():
        if name not in _FILTERS:
            raise InvalidParameterValueError(f"The filter '{name}' is invalid")
        selection[_FILTERS[name]] = selection.get(_FILTERS[name], set()) | set(values)
    prices = chosen(list(history(self.region, now)), selection)
    start = int(self._get_param("NextToken") or 0)
    size = self._get_int_param("MaxResults", PAGE)
    more = str(start + size) if start + size < len(prices) else ""
    return ActionResult({"SpotPriceHistory": prices[start : start + size], "NextToken": more})


def _time(value: Any) -> datetime | None:
    if not value:
        return None
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return time if time.tzinfo else time.replace(tzinfo=UTC)
