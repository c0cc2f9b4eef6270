"""`traingrid prices`: brings the catalog's prices up to date."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from traingrid.cli.catalog import existing_catalog, url_option
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console
from traingrid.cli.export import output_option, sentence_printer, write_rows
from traingrid.deploy.checkup.account import caller, reading_role
from traingrid.grid.file import load_grid
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.catalog.refresh_prices import PricesRead
    from traingrid.cli.export import Output

_PRICES: Schema[Any] = Schema(
    "price of an instance type",
    Column("region", "string: The Region."),
    Column("instance_type", "string: The instance type."),
    Column("purchase_option", "string: on_demand or spot."),
    Column("dollars_per_hour", "number: The price; for spot, an estimate."),
    Column("as_of", "string: The day of the price, in ISO 8601."),
    Column("source", "string: The source."),
)
_SNAPSHOT: Schema[Any] = Schema(
    "snapshot, always one",
    Column("written", "integer: The number of prices that were written."),
    Column("kept", "integer: The number of prices that the catalog has of the same day or later."),
    Column("oldest", "string: The day of the oldest price, in ISO 8601."),
    Column("newest", "string: The day of the newest price, in ISO 8601."),
)


@click.group()
def prices() -> None:
    """Bring the catalog's prices up to date."""


@prices.command()
@output_option(_PRICES)
@url_option
@click.pass_obj
def refresh(grid_file: Path, url: str | None, *, output: Output) -> None:
    """Read prices from AWS into the catalog.

    Reads the prices on demand of the grid's instance types in its Regions, estimates of their spot prices, and the
    prices of transfers between the Regions. Prices that AWS does not list are named.
    """
    grid = load_grid(grid_file)
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.refresh_prices import read_prices, write_prices

    account, _ = caller(grid.home)
    today = datetime.now(UTC).date()
    read = read_prices(grid, partial(reading_role, grid, account), today)
    write_prices(database, read)
    echo = sentence_printer(output)
    if output == "table":
        console().print(_table(read))
    else:
        write_rows(read.prices, _PRICES, output)
    echo(
        f"{counted(len(read.prices), 'price')} and {counted(len(read.transfers), 'transfer price')} of {today} written"
    )
    for missing in read.missing:
        echo(printable(f"no price: {missing}"))


@prices.command(name="import-snapshot")
@output_option(_SNAPSHOT)
@url_option
@click.pass_obj
def import_snapshot(grid_file: Path, url: str | None, *, output: Output) -> None:
    """Import dated prices of public documents.

    Needs no access to AWS. The prices are few and dated. A price of the same day or a later one in the catalog is kept.
    `source` names the public document of each.
    """
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.price_snapshot import import_snapshot as write_snapshot

    result = write_snapshot(database)
    echo = sentence_printer(output)
    write_rows([result], _SNAPSHOT, output)
    echo(f"{counted(result.written, 'price')} of {result.oldest} to {result.newest} written")
    if result.kept:
        echo(f"{counted(result.kept, 'price')} not written: the catalog has them of the same day or later")
    echo("For the present prices of your grid, run: traingrid prices refresh")


def _table(read: PricesRead) -> Table:
    """Return the prices of instances by Region and type."""
    table = Table(box=None, pad_edge=False)
    for heading in ("Region", "instance type", "$/h on demand", "$/h spot (estimate)"):
        table.add_column(heading, overflow="fold")
    options_by_type: dict[tuple[str, str], dict[str, str]] = {}
    for row in read.prices:
        options = options_by_type.setdefault((row["region"], row["instance_type"]), {})
        options[row["purchase_option"]] = f"{row['dollars_per_hour']:.4f}"
    for (region, instance_type), options in sorted(options_by_type.items()):
        table.add_row(region, instance_type, options.get("on_demand", "-"), options.get("spot", "-"))
    return table
