"""`traingrid eks`: prints the objects of Kubernetes that give a grid access to a cluster of EKS."""

from pathlib import Path

import click
import yaml

from traingrid.cli.parameter_types import REGION
from traingrid.deploy.cluster_access import access_objects
from traingrid.errors import UsageError
from traingrid.grid.file import load_grid


@click.group()
def eks() -> None:
    """Prepare clusters of Amazon EKS."""


@eks.command()
@click.argument("region", type=REGION)
@click.pass_obj
def access(grid_file: Path, region: str) -> None:
    """Print Kubernetes RBAC objects for a cluster.

    Prints the Kubernetes objects that give the grid access to the EKS cluster of REGION, as YAML: the namespace, the
    service account of pods, and a Role and a RoleBinding for each group of the grid. An administrator of the cluster
    applies them once, and again after an upgrade: traingrid eks access REGION | kubectl apply -f -
    """
    grid = load_grid(grid_file)
    settings = grid.regions[region].eks if region in grid.regions else None
    if settings is None:
        with_cluster = ", ".join(grid.with_clusters()) or "none"
        text = f"{grid_file}: {region} is no Region with `eks`; Regions with a cluster: {with_cluster}."
        raise UsageError(text, f"Add `eks: {{cluster: NAME}}` to {region} in {grid_file}.")
    click.echo(yaml.safe_dump_all(access_objects(grid.name, settings), sort_keys=False), nl=False)
