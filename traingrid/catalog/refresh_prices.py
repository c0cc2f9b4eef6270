"""Price refresh: reads the prices of a grid's instances and of transfers from AWS into the catalog.

`as_of` is the day of the refresh, because the price list confirmed the price on that day; `source` contains the SKU
and the day on which AWS published the list. A price that AWS no longer lists keeps its row with the previous date.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.price_list import Filter, products
from traingrid.aws.spot_prices import spot_prices
from traingrid.catalog.batches import upsert
from traingrid.catalog.tables import prices, transfer_prices
from traingrid.errors import TraingridError
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from sqlalchemy import Connection

    from traingrid.aws.clients import ActingRole
    from traingrid.aws.price_list import Product
    from traingrid.catalog.database import Catalog
    from traingrid.grid.model import GridSettings

ON_DEMAND, SPOT = "on_demand", "spot"
SPOT_SOURCE = "estimate: EC2 spot price of {}, mean of Availability Zones"
"""SageMaker publishes no price of managed spot training; BillableTimeInSeconds shows the discount after a job."""

_SAGEMAKER, _TRANSFER = "AmazonSageMaker", "AWSDataTransfer"
_TRAINING = re.compile(r"(?:[A-Z0-9]+-)?Train:(ml\..+)")
"""The usage type of an instance for training, such as USE1-Train:ml.m5.large. Other components have another word there,
such as Host or Notebk (https://github.com/vantage-sh/ec2instances.info/blob/master/sagemaker.py)."""
_BETWEEN_REGIONS = re.compile(r"[A-Z0-9]+-[A-Z0-9]+-AWS-Out-Bytes")
"""The usage type of a transfer between Regions, such as USE1-APS4-AWS-Out-Bytes; the source Region pays
(https://docs.aws.amazon.com/cur/latest/userguide/cur-data-transfers-charges.html)."""


@dataclass(frozen=True, kw_only=True)
class PricesRead:
    """The result of reading prices.

    Attributes:
        prices: Rows of the table `prices`.
        transfers: Rows of the table `transfer_prices`.
        missing: The prices that were not found, each with the reason.
    """

    prices: Sequence[Mapping[str, Any]]
    transfers: Sequence[Mapping[str, Any]]
    missing: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class _Found:
    rows: list[dict[str, Any]]
    missing: list[str]


def read_prices(grid: GridSettings, acting_role_in: Callable[[str], ActingRole | None], today: date) -> PricesRead:
    """Read the prices of the grid's instance types in its training Regions, and of transfers between them.

    Args:
        acting_role_in: Returns the role to assume in a Region of another account.

    Raises:
        TraingridError: The caller may not read price lists, or a price list has an unknown form.
        ClientError: AWS refuses to return a price list.
        BotoCoreError: The price list's endpoint does not answer.
    """
    regions = list(grid.regions)
    types = grid.allowed_instance_types()
    on_demand = map_in_order(partial(_read_on_demand_prices, types=types, today=today), regions, len(regions))
    spot = map_in_order(lambda region: _spot(region, types, acting_role_in, today), regions, len(regions))
    transfers = map_in_order(partial(_transfers, regions=regions, today=today), regions, len(regions))
    instance_prices = _joined_prices([*on_demand, *spot])
    transfer_prices = _joined_prices(transfers)
    return PricesRead(
        prices=instance_prices.rows,
        transfers=transfer_prices.rows,
        missing=[*instance_prices.missing, *transfer_prices.missing],
    )


def write_prices(catalog: Catalog, read: PricesRead) -> None:
    """Write prices in one transaction.

    Raises:
        TraingridError: There are none, or the database does not answer.
    """
    if not read.prices and not read.transfers:
        message = "AWS lists no price for this grid, and the catalog was not changed."
        raise TraingridError("\n".join([message, *read.missing]), "Check regions and instance_types in grid.yaml.")
    catalog.write(partial(_write, read=read))


def _write(connection: Connection, read: PricesRead) -> None:
    upsert(connection, prices, read.prices)
    upsert(connection, transfer_prices, read.transfers)


def _read_on_demand_prices(region: str, types: Sequence[str], today: date) -> _Found:
    """Read the prices on demand in a Region; SageMaker bills training by the instance-hour."""
    filters = [Filter("regionCode", region), Filter("usagetype", "Train:ml.", "CONTAINS")]
    products_by_type: dict[str, list[Product]] = {}
    for product in products(_SAGEMAKER, filters):
        usage = _TRAINING.fullmatch(product.attributes.get("usagetype", ""))
        if usage and product.unit == "Hrs" and product.dollars > 0:
            products_by_type.setdefault(usage[1], []).append(product)
    prices = _Found(rows=[], missing=[])
    for instance_type in types:
        price = _single_price(products_by_type.get(instance_type, []), _SAGEMAKER)
        if isinstance(price, str):
            prices.missing.append(f"{region} {instance_type} on demand: {price}")
            continue
        row = {"region": region, "instance_type": instance_type, "purchase_option": ON_DEMAND, "as_of": today}
        prices.rows.append({**row, "dollars_per_hour": price.dollars, "source": price.source})
    return prices


def _spot(region: str, types: Sequence[str], acting_role_in: Callable[[str], ActingRole | None], today: date) -> _Found:
    """Estimate spot prices in a Region; if EC2 there does not answer, they are missing."""
    names = {kind: kind.removeprefix("ml.") for kind in types}
    try:
        price_by_type = spot_prices(region, list(names.values()), acting_role_in(region))
    except (ClientError, BotoCoreError) as error:
        return _Found(rows=[], missing=[f"{region} spot: {error}"])
    rows = [
        {
            "region": region,
            "instance_type": kind,
            "purchase_option": SPOT,
            "as_of": today,
            "dollars_per_hour": price_by_type[name],
            "source": SPOT_SOURCE.format(name),
        }
        for kind, name in names.items()
        if name in price_by_type
    ]
    missing = [
        f"{region} {kind} spot: EC2 has no spot price of {name}"
        for kind, name in names.items()
        if name not in price_by_type
    ]
    return _Found(rows=rows, missing=missing)


def _transfers(region: str, regions: Sequence[str], today: date) -> _Found:
    """Read the prices of transfers from a Region to the other ones."""
    filters = [Filter("fromRegionCode", region), Filter("transferType", "InterRegion Outbound")]
    products_by_route: dict[str, list[Product]] = {}
    targets = [target for target in regions if target != region]
    if targets:
        for product in products(_TRANSFER, filters):
            usage = product.attributes.get("usagetype", "")
            operation = product.attributes.get("operation", "")
            if _BETWEEN_REGIONS.fullmatch(usage) and not operation and product.unit == "GB":
                products_by_route.setdefault(product.attributes.get("toRegionCode", ""), []).append(product)
    prices = _Found(rows=[], missing=[])
    for target in targets:
        price = _single_price(products_by_route.get(target, []), _TRANSFER)
        if isinstance(price, str):
            prices.missing.append(f"{region} to {target}: {price}")
            continue
        row = {"from_region": region, "to_region": target, "as_of": today}
        prices.rows.append({**row, "dollars_per_gb": price.dollars, "source": price.source})
    return prices


def _single_price(listed: Sequence[Product], service: str) -> Product | str:
    """Return the product with the price, or the reason for its absence: there is none, or several prices differ."""
    if not listed:
        return f"{service} lists no price"
    if len({product.dollars for product in listed}) > 1:
        prices = ", ".join(f"${product.dollars:g} ({product.sku})" for product in listed)
        return f"{service} lists several prices: {prices}"
    return listed[0]


def _joined_prices(parts: Iterable[_Found]) -> _Found:
    joined = _Found(rows=[], missing=[])
    for part in parts:
        joined.rows.extend(part.rows)
        joined.missing.extend(part.missing)
    return joined
