"""`traingrid retained`: lists the resources that remain without their stacks, their cost and how to delete them."""

from pathlib import Path

import click

from traingrid import names
from traingrid.aws.clients import periodic_client
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.folded_table import folded_table
from traingrid.deploy.checkup.account import caller
from traingrid.deploy.checkup.finding import Finding
from traingrid.deploy.checkup.left_stacks import is_there, left_stacks
from traingrid.deploy.retained import Retained
from traingrid.deploy.retained import retained as kept
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings
from traingrid.text import printable


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"


def _size(resource: Retained) -> str:
    return "" if resource.kind == "key" else _figure(resource.gigabytes)


_ROWS: Schema[Retained] = Schema(
    "resource",
    Column("region", "string: Its Region.", heading="Region"),
    Column("kind", "string: bucket, table, cluster, key, or stack."),
    Column("name", "string: Its name; the ARN of a key.", heading="what"),
    Column("holds", "string: Its purpose; empty for a stack.", heading="holds"),
    Column("gigabytes", "number: Its size; null if it is not known.", _size, heading="GB", right=True),
    Column(
        "dollars",
        "number: Its monthly cost at the list prices of us-east-1; null if it is not known.",
        lambda resource: _figure(resource.dollars),
        heading="$/month",
        right=True,
    ),
    Column("remove", "string: The command that deletes it for good."),
)


@click.command()
@output_option(_ROWS)
@click.pass_obj
def retained(grid_file: Path, *, output: Output) -> None:
    """List resources that `cdk destroy` keeps.

    Lists buckets, the ledger and keys, with their size, cost and the commands that remove them. Works before the grid
    is destroyed and afterwards. Changes nothing.
    """
    grid = load_grid(grid_file)
    account, _ = caller(grid.home)
    resources = kept(grid, account)
    stacks_to_delete = [stack for stack in left_stacks(grid, account) if stack.fix]
    echo = sentence_printer(output)
    if output != "table":
        write_rows([*resources, *map(_row, stacks_to_delete)], _ROWS, output)
    elif resources:
        console().print(folded_table(_ROWS.columns, resources))
    commands = [
        (stack_or_resource.region, stack_or_resource.name, stack_or_resource.remove) for stack_or_resource in resources
    ] + [(leftover.region, leftover.subject, leftover.fix) for leftover in stacks_to_delete]
    for region, resource, command in commands:
        echo(printable(f"{region} {resource}: {command}"))
    stacks = _stacks(grid) + [stack.subject.removeprefix("stack ") for stack in stacks_to_delete]
    for region, owner in grid.other_accounts().items():
        if owner != account:
            echo(f"{region} is in account {owner}: list its resources with credentials of that account")
    echo(printable(_sum(grid, resources, stacks)))


def _row(stack: Finding) -> Retained:
    """Return the row of a stack, which the table does not show."""
    name = stack.subject.removeprefix("stack ")
    return Retained(region=stack.region, kind="stack", name=name, holds="", remove=stack.fix)


def _stacks(grid: GridSettings) -> list[str]:
    """Return the stacks of the grid that still exist."""
    home_stack_names = (names.guard_stack, names.control_stack, names.builds_stack, names.images_stack)
    stacks = [(name_of(grid.name), grid.home) for name_of in home_stack_names]
    for region in grid.regions:
        stacks += [(names.region_stack(grid.name, region), region), (names.registry_stack(grid.name, region), region)]
    return [name for name, region in stacks if is_there(periodic_client("cloudformation", region), name)]


def _sum(grid: GridSettings, resources: list[Retained], stacks: list[str]) -> str:
    dollars = sum(resource.dollars or 0 for resource in resources)
    unknown = sum(resource.dollars is None for resource in resources)
    cost = f"${dollars:.2f} a month at the list prices of us-east-1"
    if unknown:
        cost += f", and {unknown} of unknown size"
    if stacks:
        return f"{len(resources)} are retained when {grid.name} is destroyed: {cost}; deployed: {', '.join(stacks)}"
    if not resources:
        return f"no resources of {grid.name} remain"
    return f"{len(resources)} remain of {grid.name}, which is destroyed: {cost}"
