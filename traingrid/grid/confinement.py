"""Confinement: which training containers with data of a residency can connect to the internet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traingrid.grid.model import GridSettings

RULE = (
    "its residency limits copies, but the training container can connect to the internet, so its code and packages "
    "can send the data anywhere"
)
NEXT_STEP = "Set `network_isolation: true` in `training`, or give the Region subnets without a route to the internet"


def has_internet(grid: GridSettings, region: str) -> bool:
    """Return True if training containers in a Region can connect to the internet, as far as grid.yaml shows.

    SageMaker gives a container internet access unless the job has network isolation or a VPC
    (https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html). Whether a VPC has a route to
    the internet is not in grid.yaml.
    """
    return not grid.training.network_isolation and not grid.regions[region].subnets


def unconfined(grid: GridSettings) -> list[str]:
    """Return the Regions that have a `residency`, and containers that can connect to the internet."""
    return [region for region, settings in grid.regions.items() if settings.residency and has_internet(grid, region)]
