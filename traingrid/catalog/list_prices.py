"""List prices: SageMaker's hourly prices on demand in the snapshot, for commands without a catalog."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ListPrice:
    """A price in US dollars per hour of an instance.

    Attributes:
        as_of: The day of the price, as in 2026-09-24.
    """

    dollars_per_hour: float
    as_of: str


@cache
def list_prices() -> Mapping[tuple[str, str], ListPrice]:
    """Return the snapshot's prices on demand by Region and instance type."""
    text = files("traingrid.catalog").joinpath("snapshot", "prices.csv").read_text(encoding="utf-8")
    return {
        (row["region"], row["instance_type"]): ListPrice(float(row["dollars_per_hour"]), row["as_of"])
        for row in csv.DictReader(text.splitlines())
        if row["purchase_option"] == "on_demand"
    }
