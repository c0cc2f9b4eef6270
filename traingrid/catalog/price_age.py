"""Price age: names the prices of a catalog that are too old to rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

OLD_DAYS = 30
"""A price that is older than this many days is named by default."""


def old_prices(rows: Iterable[Mapping[str, Any]], today: date, days: int = OLD_DAYS) -> list[str]:
    """Return a text about each price that is older than a number of days, the oldest first.

    Args:
        rows: Rows of the table `prices` or `transfer_prices`.
        today: The day at which the age is counted.
        days: A price of exactly this age is not old yet.
    """
    old = [(row["as_of"], _named(row)) for row in rows if (today - row["as_of"]).days > days]
    return [f"{name}: of {day}, {counted((today - day).days, 'day')} old" for day, name in sorted(old)]


def _named(row: Mapping[str, Any]) -> str:
    if "from_region" in row:
        return f"transfer from {row['from_region']} to {row['to_region']}, ${row['dollars_per_gb']:g}/GB"
    option = row["purchase_option"].replace("_", " ")
    return f"{row['region']} {row['instance_type']} {option}, ${row['dollars_per_hour']:g}/h"
