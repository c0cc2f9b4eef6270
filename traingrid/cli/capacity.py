"""`traingrid capacity`: brings the catalog's quotas and training plans up to date."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traingrid.cli.catalog import existing_catalog, url_option
from traingrid.cli.columns import Column, Schema
from traingrid.cli.doctor import needs_of
from traingrid.cli.export import output_option, sentence_printer, write_rows
from traingrid.deploy.checkup.account import caller, reading_role
from traingrid.grid.file import load_grid
from traingrid.names import name_of_arn
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from traingrid.catalog.refresh_capacity import CapacityRead
    from traingrid.cli.export import Output
    from traingrid.deploy.checkup.quotas import Need


def _option(row: Mapping[str, Any]) -> str:
    plan = row["training_plan"]
    return f"plan {name_of_arn(plan)}" if plan else str(row["purchase_option"])


def _needed_text(row: Mapping[str, Any]) -> str:
    return "-" if row["needed"] is None else str(row["needed"])


def _day(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: f"{row[name].astimezone(UTC):%Y-%m-%d %H:%M}" if row[name] else ""


_ROWS: Schema[Mapping[str, Any]] = Schema(
    "quota or training plan",
    Column("region", "string: The Region.", heading="Region"),
    Column("instance_type", "string: The instance type.", heading="instance type"),
    Column("purchase_option", "string: on_demand, spot or plan.", _option, heading="option"),
    Column("training_plan", "string: The ARN of the training plan; empty for a quota."),
    Column("instances", "integer: The instances that it grants.", heading="granted"),
    Column(
        "needed",
        "integer: The instances that the jobs need at once; null if none does, and for a plan.",
        _needed_text,
        heading="needed at once",
    ),
    Column(
        "starts_at", "string: The start of the plan in ISO 8601; null for a quota.", _day("starts_at"), heading="from"
    ),
    Column("ends_at", "string: The end of the plan in ISO 8601; null for a quota.", _day("ends_at"), heading="to"),
)


@click.group()
def capacity() -> None:
    """Read quotas and training plans."""


@capacity.command()
@click.argument("manifest", required=False, type=click.Path(path_type=Path, dir_okay=False))
@output_option(_ROWS)
@url_option
@click.pass_obj
def refresh(grid_file: Path, manifest: Path | None, url: str | None, *, output: Output) -> None:
    """Read quotas and training plans from AWS.

    Reads the quotas on the grid's instance types, on demand and spot, and all training plans in its Regions. Prints
    them beside the needs of MANIFEST's jobs, or of one job with grid.yaml's defaults.
    """
    grid = load_grid(grid_file)
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.refresh_capacity import read_capacity, write_capacity

    account, _ = caller(grid.home)
    needs = needs_of(grid, account, manifest).instances
    today = datetime.now(UTC).date()
    read = read_capacity(grid, grid.account or account, partial(reading_role, grid, account), today)
    write_capacity(database, read)
    echo = sentence_printer(output)
    write_rows(_rows(read, needs), _ROWS, output)
    echo(f"{counted(len(read.quotas), 'quota')} and {counted(len(read.plans), 'training plan')} of {today} written")
    for problem in read.problems:
        echo(printable(f"not read: {problem}"))


def _rows(read: CapacityRead, needs: Iterable[Need]) -> Iterator[dict[str, Any]]:
    """Yield quotas and plans; needs concern quotas, because a plan is used only by lines that name it."""
    needed = {(need.region, need.instance_type, need.spot): need.all_jobs_instances for need in needs}
    for row in read.quotas:
        key = row["region"], row["instance_type"], row["purchase_option"] == "spot"
        yield {**dict.fromkeys(_ROWS.names), **row, "training_plan": "", "needed": needed.get(key)}
    for plan in read.plans:
        yield {**dict.fromkeys(_ROWS.names), **plan}
