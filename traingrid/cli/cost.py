"""`traingrid cost`: prints the cost of jobs, from the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.catalog import existing_catalog, no_sync_option, sync_catalog, url_option
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import output_option, write_rows
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.errors import UsageError
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.catalog.costs import Cost
    from traingrid.cli.export import Output

_Group: TypeAlias = "tuple[str, Cost]"


def _figure(name: str, text: str, number: Callable[[Cost], float], form: str = "${:,.2f}") -> Column[_Group]:
    """Return the column of a number of a cost. A number is not folded."""

    def value(group: _Group) -> float:
        return number(group[1])

    return Column(
        name, text, lambda row: form.format(value(row)), value=value, heading=name, right=True, fit="ellipsis"
    )


def _rows(by: str) -> Schema[_Group]:
    return Schema(
        "group",
        Column(by, "string: The group; the key is the value of --by.", value=lambda group: group[0], heading=by),
        _figure("jobs", "integer: The number of its jobs.", lambda cost: len(cost.jobs), "{:,}"),
        _figure("runs", "integer: The number of their runs.", lambda cost: cost.runs, "{:,}"),
        _figure(
            "hours", "number: The billable hours of training.", lambda cost: round(cost.billable_hours, 2), "{:,.2f}"
        ),
        _figure("actual", "number: Dollars of billed training.", lambda cost: round(cost.actual, 4)),
        _figure("transfer", "number: Dollars of copies between Regions.", lambda cost: round(cost.transfer, 4)),
        _figure("orchestration", "number: Dollars of Batch children.", lambda cost: round(cost.orchestration, 4)),
        _figure("estimated", "number: Planned dollars of training.", lambda cost: round(cost.estimated, 4)),
        _figure("total", "number: The sum of actual, transfer and orchestration.", lambda cost: round(cost.total, 4)),
    )


@click.command()
@click.option("--by", default="submission", show_default=True, help="Group by this: submission, job, campaign, ...")
@click.option("--submission", default="", type=SUBMISSION, help="Include only this submission.")
@click.option("--campaign", default="", help="Include only this campaign.")
@output_option(_rows("submission"))
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
        click.echo(f"synced {sync_catalog(database, grid_file).sentence}", err=True)
    cost_by_name = costs(database, by, submission=submission, campaign=campaign)
    if not cost_by_name:
        raise UsageError("The catalog has no such runs.", "`traingrid status` lists submissions.")
    write_rows(cost_by_name.items(), _rows(by), output)
    if unpriced := sum(cost_of_name.unpriced for cost_of_name in cost_by_name.values()):
        text = f"{counted(unpriced, 'run')} without a price in the catalog: the cost of their training is not included."
        click.echo(f"{text} docs/catalog.md describes how to add prices.", err=True)
    if unpriced := sum(cost_of_name.unpriced_transfers for cost_of_name in cost_by_name.values()):
        text = f"{counted(unpriced, 'transfer')} without a price in the catalog: their cost is not included."
        click.echo(f"{text} Read the prices: traingrid prices refresh", err=True)
