"""Backends: the services that run training jobs, behind two protocols: `Backend` and `Inventory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.aws.clients import Maker, client, gentle, once
from traingrid.backends.queued import Either, Queued
from traingrid.backends.queued_inventory import QueuedInventory
from traingrid.backends.sagemaker import SageMaker
from traingrid.backends.sagemaker_inventory import SageMakerInventory
from traingrid.errors import UsageError

if TYPE_CHECKING:
    from traingrid.backends.base import Backend
    from traingrid.backends.inventory import Inventory
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import BackendName


def launching(deployment: Deployment, region: str, backend: BackendName, launch: str, make: Maker = client) -> Backend:
    """Return the backend with which a child launches its job.

    It reads logs without botocore's retries, because a throttled child reads again later
    (traingrid/child/log_following.py).

    Raises:
        UsageError: The job must be queued, but its Region has no service queue.
    """
    if backend != "sagemaker":
        raise UsageError(f"This version cannot run jobs on {backend}.", "Write backend sagemaker, and submit it again.")
    if launch == "direct":
        return SageMaker(deployment, region, make, once)
    if not deployment.grid.service_queue(region):
        text = f"The job must be queued in {region}, which has no service queue."
        raise UsageError(text, "Add a service_queue to the Region in grid.yaml, deploy, and submit the line again.")
    return Queued(deployment, region, make, once)


def watching(deployment: Deployment, region: str, make: Maker = client) -> SageMaker:
    """Return the backend of a Region for processes that manage training jobs that children have launched."""
    made = Either if deployment.grid.service_queue(region) else SageMaker
    return made(deployment, region, make)


def inventory_of(deployment: Deployment, region: str, make: Maker = gentle) -> Inventory:
    """Return the training jobs of a grid in a Region, which may have left the grid."""
    queue = deployment.grid.service_queue(region)
    return QueuedInventory(deployment, region, queue, make) if queue else SageMakerInventory(deployment, region, make)
