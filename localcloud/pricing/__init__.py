"""Prices: the Price List Query API, which moto 5.2.5 lacks, and the history of EC2's spot prices.

All prices are examples (`example_prices`) in the form of AWS's replies: they are plausible, and none of them is AWS's.
"""

from typing import TYPE_CHECKING

from moto.ec2.responses.spot_instances import SpotInstances

from localcloud.pricing import spot_history

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Replace moto's spot price history; `price_lists.PriceLists` is a part of the server's chain of handlers."""
    cloud.replace(SpotInstances, describe_spot_price_history=spot_history.describe)
