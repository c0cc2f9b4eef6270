"""`traingrid cost`: prints the cost of jobs, from the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.catalog import existing_catalog, no_sync_option, synced, url_option
from traingrid.cli.console import console
from traingrid.cli.export import Schema, output_option, write_table
from traingrid.errors import UsageError
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.catalog.costs import Cost
    from traingrid.cli.export import Output

_FIGURES = {
    "jobs": "integer: The number of its jobs.",
    "runs": "integer: The number of their runs.",
    "hours": "number: The billable hours of training.",
    "actual": "number: Dollars of billed training.",
    "transfer": "number: Dollars of copies between Regions.",
    "orchestration": "number: Dollars of Batch children.",
    "estimated": "number: Planned dollars of training.",
    "total": "number: The sum of actual, transfer and orchestration.",
}
_ROWS = Schema("group", {"submission": "string: The group; the key is the value of --by.", **_FIGURES})


@click.command()
@click.option("--by", default="submission", show_default=True, help="Group by this: submission, job, campaign, ...")
@click.option("--submission", default="", help="Include only this submission.")
@click.option("--campaign", default="", help="Include only this campaign.")
@output_option(_ROWS)
@no_sync_option
@url_option
@click.pass_obj
def cost(  # noqa: PLR0913  # the options of the command
    grid_file: Path, by: str, submission: str, campaign: str, url: str | None, *, output: Output, no_sync: bool
) -> None:
    """Print the cost of jobs in US dollars.

    The groups are submission, job, campaign, dataset, region, instance_type and tag:KEY.
    """
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.costs import costs

    if not no_sync:  # with it, the command needs no access to AWS, and the id must be complete
        submission = submission and ControlPlane.of(grid_file).submission_id(submission)
        click.echo(f"synced {synced(database, grid_file).sentence}", err=True)
    cost_by_name = costs(database, by, submission=submission, campaign=campaign)
    if not cost_by_name:
        raise UsageError("The catalog has no such runs.", "`traingrid status` lists submissions.")
    if output != "table":
        write_table(
            (by, *_FIGURES), ((name, *_figures(cost_of_name)) for name, cost_of_name in cost_by_name.items()), output
        )
    else:
        console().print(_table(by, cost_by_name))
    if unpriced := sum(cost_of_name.unpriced for cost_of_name in cost_by_name.values()):
        text = f"{counted(unpriced, 'run')} without a price in the catalog: the cost of their training is not included."
        click.echo(f"{text} docs/catalog.md describes how to add prices.", err=True)
    if unpriced := sum(cost_of_name.unpriced_transfers for cost_of_name in cost_by_name.values()):
        text = f"{counted(unpriced, 'transfer')} without a price in the catalog: their cost is not included."
        click.echo(f"{text} Read the prices: traingrid prices refresh", err=True)


def _figures(cost: Cost) -> tuple[float, ...]:
    money = (cost.actual, cost.transfer, cost.orchestration, cost.estimated, cost.total)
    return (len(cost.jobs), cost.runs, round(cost.billable_hours, 2), *(round(dollars, 4) for dollars in money))


def _table(by: str, cost_by_name: Mapping[str, Cost]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(by, overflow="fold")
    for name in _FIGURES:
        table.add_column(name, justify="right")
    for name, cost_of_name in cost_by_name.items():
        count, tries, hours, *money = _figures(cost_of_name)
        figures = (f"{count:,}", f"{tries:,}", f"{hours:,.2f}", *(f"${dollars:,.2f}" for dollars in money))
        table.add_row(Text(printable(name)), *figures)
    return table
