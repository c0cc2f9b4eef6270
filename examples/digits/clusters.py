"""Clusters of the mixed demo: creates a user's own clusters of EKS, and gives the grid access to them.

Both steps are those of docs/kubernetes.md, with the same programs: EKS' API creates a cluster, and kubectl applies the
output of `traingrid eks access`.
"""

from __future__ import annotations

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
    from localcloud.server.local_cloud import LocalCloud

KUBECTL = Path(sys.executable).with_name("kubectl")


def create_clusters(cloud: LocalCloud, grid_file: Path) -> list[str]:
    """Create the cluster of each Region with `eks`, and apply the grid's access to it.

    Args:
        cloud: The local AWS.
        grid_file: The grid.

    Returns:
        The ARNs of the clusters, which are their names in the kubeconfig.

    Raises:
        TraingridError: kubectl failed.
    """
    server = Running(os.getpid(), cloud.endpoint_url, str(cloud.data_dir), cloud.secret)
    grid, made = load_grid(grid_file), list[str]()
    for region, settings in grid.regions.items():
        if settings.eks:
            made.append(new_cluster(server, settings.eks.cluster, region, with_operator=True))
            objects = yaml.safe_dump_all(access_objects(grid.name, settings.eks), sort_keys=False)
            kubectl(cloud, made[-1], "apply", "-f", "-", standard_input=objects)
    return made


def kubectl(cloud: LocalCloud, cluster: str, *arguments: str, standard_input: str = "") -> str:
    """Run kubectl on a cluster as its administrator, and return its output.

    Args:
        cloud: The local AWS.
        cluster: The cluster's ARN.
        arguments: The arguments.
        standard_input: The standard input.

    Raises:
        TraingridError: kubectl failed.
    """
    environment = {**os.environ, "KUBECONFIG": str(cloud.data_dir / "kubeconfig")}
    command = [str(KUBECTL), "--context", cluster, *arguments]
    done = subprocess.run(command, env=environment, input=standard_input, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TraingridError(f"`kubectl {' '.join(arguments)}` failed on {cluster}: {done.stderr.strip()}.")
    return done.stdout
