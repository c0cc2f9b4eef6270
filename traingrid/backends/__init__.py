"""Backends: the services that run training jobs, behind the protocols `Backend`, `Inventory` and `ReadableLogs`.

The modules of Amazon EKS are loaded only for Regions that have a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.aws.clients import Maker, client, gentle, once
from traingrid.backends.queued.backend import Either, Queued
from traingrid.backends.queued.inventory import QueuedInventory
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.errors import UsageError

if TYPE_CHECKING:
    from traingrid.backends.base import Backend, ReadableLogs
    from traingrid.backends.eks.backend import Eks
    from traingrid.backends.inventory import Inventory
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import BackendName


def launching(deployment: Deployment, region: str, backend: BackendName, launch: str, make: Maker = client) -> Backend:
    """Return the backend with which a child launches its job.

    It reads logs without botocore's retries, because a throttled child reads again later
    (traingrid/child/log_following.py).

    Raises:
        UsageError: The Region has no cluster, or the job must be queued, but its Region has no service queue.
    """
    if backend == "eks":
        return _eks(deployment, region, make)
    if launch == "direct":
        return SageMaker(deployment, region, make, once)
    if not deployment.grid.service_queue(region):
        text = f"The job must be queued in {region}, which has no service queue."
        raise UsageError(text, "Add a service_queue to the Region in grid.yaml, deploy, and submit the line again.")
    return Queued(deployment, region, make, once)


def watching(deployment: Deployment, region: str, backend: BackendName, make: Maker = client) -> Backend:
    """Return a backend of a Region for processes that manage training jobs that children have launched.

    Raises:
        UsageError: The Region has no cluster.
    """
    return _eks(deployment, region, make) if backend == "eks" else _sagemaker(deployment, region, make)


def logs_of(deployment: Deployment, region: str, backend: BackendName, make: Maker = client) -> ReadableLogs:
    """Return the logs of a backend in a Region.

    Raises:
        UsageError: The Region has no cluster.
    """
    return _eks(deployment, region, make) if backend == "eks" else _sagemaker(deployment, region, make)


def inventory_of(deployment: Deployment, region: str, make: Maker = gentle, role: str = "") -> Inventory:
    """Return the training jobs of a grid in a Region, which may have left the grid, on all backends that it has.

    Args:
        deployment: The deployment.
        region: The Region.
        make: Makes the clients.
        role: The ARN of the process's role, if it is not that of the deployment's `part`; for errors of a cluster.
    """
    queue = deployment.grid.service_queue(region)
    inventory = (
        QueuedInventory(deployment, region, queue, make) if queue else SageMakerInventory(deployment, region, make)
    )
    if region not in deployment.grid.regions or deployment.grid.regions[region].eks is None:
        return inventory
    from traingrid.backends.eks.inventory import EksInventory  # noqa: PLC0415  # most grids have no cluster
    from traingrid.backends.joint_inventory import JointInventory  # noqa: PLC0415  # as above

    return JointInventory({"sagemaker": inventory, "eks": EksInventory(deployment, region, make, role)})


def _sagemaker(deployment: Deployment, region: str, make: Maker) -> SageMaker:
    backend = Either if deployment.grid.service_queue(region) else SageMaker
    return backend(deployment, region, make)


def _eks(deployment: Deployment, region: str, make: Maker) -> Eks:
    from traingrid.backends.eks.backend import Eks  # noqa: PLC0415  # most grids have no cluster

    return Eks(deployment, region, make)
