"""`traingrid eks`: prints the access of a grid to clusters of Amazon EKS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import yaml

from traingrid.backends.eks.access import access_objects
from traingrid.errors import UsageError
from traingrid.grid.file import load_grid

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def eks() -> None:
    """Prepare clusters of Amazon EKS."""


@eks.command()
@click.argument("region")
@click.pass_obj
def access(grid_file: Path, region: str) -> None:
    """Print the objects that give a grid access to a cluster.

    Pipe them to kubectl, with a user of the cluster: traingrid eks access REGION | kubectl apply -f -. They contain the
    namespace, the service account of pods, and a role for each group of the grid's access entries. Reads only
    grid.yaml.
    """
    grid = load_grid(grid_file)
    settings = grid.regions.get(region)
    if settings is None or settings.eks is None:
        text = f"{region} has no cluster of Amazon EKS in {grid_file}."
        raise UsageError(text, f"Add `eks: {{cluster: NAME}}` to the Region {region}.")
    click.echo(yaml.safe_dump_all(access_objects(grid.name, settings.eks), sort_keys=False), nl=False)
