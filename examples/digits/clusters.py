"""Clusters of the demos: creates a user's own clusters of EKS, and gives the grid access to them.

Both steps are those of docs/kubernetes.md, with the same programs: EKS' API creates a cluster, and kubectl applies the
output of `traingrid eks access`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from localcloud.server.new_cluster import new_cluster
from localcloud.server.state_file import Running
from traingrid.deploy.cluster_access import access_objects
from traingrid.errors import TraingridError
from traingrid.grid.file import load_grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localcloud.server.local_cloud import LocalCloud
    from traingrid.grid.model import GridSettings

KUBECTL = Path(sys.executable).with_name("kubectl")


def grid_file_of(arguments: Sequence[str], engines: Mapping[str, Path], document: str) -> Path:
    """Return the grid of the engine that the option --engine names.

    Args:
        arguments: The arguments of the command line.
        engines: The grid of each engine; the first one is the default.
        document: The docstring of the demo, whose first sentence the help shows.
    """
    parser = argparse.ArgumentParser(description=document.split("\n", maxsplit=1)[0])
    parser.add_argument("--engine", choices=engines, default=next(iter(engines)), help="the service that trains")
    return engines[parser.parse_args(arguments).engine]


def create_clusters(cloud: LocalCloud, grid_file: Path) -> dict[str, str]:
    """Create the cluster of each Region with `eks`, and apply the grid's access to it.

    Returns:
        The namespace of the grid in each cluster, by the cluster's ARN, which is its name in the kubeconfig.

    Raises:
        TraingridError: kubectl failed.
    """
    grid = load_grid(grid_file)
    return {
        create_cluster(cloud, grid, region): settings.eks.namespace
        for region, settings in grid.regions.items()
        if settings.eks
    }


def create_cluster(
    cloud: LocalCloud, grid: GridSettings, region: str, *, with_operator: bool = True, account: str = ""
) -> str:
    """Create a cluster as its owner does, apply a grid's access to it, and return its ARN.

    Args:
        region: A Region of the grid with `eks`.
        with_operator: Install the MPI operator.
        account: The cluster's account, if it is not that of the local AWS.

    Raises:
        TraingridError: The Region has no `eks`, or kubectl failed.
    """
    settings = grid.regions[region].eks
    if settings is None:
        raise TraingridError(f"{region} has no `eks` in grid.yaml.")
    server = Running(os.getpid(), cloud.endpoint_url, str(cloud.data_dir), cloud.secret)
    arn = new_cluster(server, settings.cluster, region, with_operator=with_operator, account=account)
    objects = yaml.safe_dump_all(access_objects(grid.name, settings), sort_keys=False)
    kubectl(cloud, arn, "apply", "-f", "-", standard_input=objects)
    return arn


def kubectl(cloud: LocalCloud, cluster: str, *arguments: str, standard_input: str = "") -> str:
    """Run kubectl on a cluster as its administrator, and return its output.

    Args:
        cluster: The cluster's ARN.

    Raises:
        TraingridError: kubectl failed.
    """
    environment = {**os.environ, "KUBECONFIG": str(cloud.data_dir / "kubeconfig")}
    command = [str(KUBECTL), "--context", cluster, *arguments]
    done = subprocess.run(command, env=environment, input=standard_input, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TraingridError(f"`kubectl {' '.join(arguments)}` failed on {cluster}: {done.stderr.strip()}.")
    return done.stdout
