"""Backends: the services that run training jobs, behind the protocols `Backend`, `Inventory` and `ReadableLogs`.

Each function returns one of these for a Region. docs/backends.md describes how to add a service. The modules of Amazon
EKS are loaded only for Regions that have a cluster.
"""

from traingrid.aws.clients import ClientFactory, background_client, client, client_without_retries
from traingrid.backends.base import Backend, ReadableLogs
from traingrid.backends.inventory import Inventory
from traingrid.backends.joint_inventory import JointInventory
from traingrid.backends.queued.backend import Queued, QueuedOrDirect
from traingrid.backends.queued.inventory import QueuedInventory
from traingrid.backends.queued.jobs import ServiceJobs
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.backends.sagemaker.log import SageMakerLogs
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.backend_traits import DEFAULT_BACKEND, BackendName
from traingrid.job.observed import Describer


def launching(
    deployment: Deployment, region: str, backend: BackendName, launch: str, make_client: ClientFactory = client
) -> Backend:
    """Return the backend with which a child launches its job.

    It reads logs without botocore's retries, because a throttled child reads again later
    (traingrid/child/log_following.py).

    Raises:
        UsageError: The Region has no cluster, or the job must be queued, but its Region has no service queue.
    """
    match backend:
        case "eks":
            return _eks(deployment, region, make_client)
        case "sagemaker" if launch == "direct":
            return SageMaker(deployment, region, make_client, client_without_retries)
        case "sagemaker":
            return _queued(deployment, region, make_client)


def describing(
    deployment: Deployment, region: str, backend: BackendName, make_client: ClientFactory = client
) -> Describer:
    """Return the descriptions of a Region's training jobs, for processes that record how children's training jobs end.

    Raises:
        UsageError: The Region has no cluster.
    """
    match backend:
        case "eks":
            return _eks(deployment, region, make_client)
        case "sagemaker" if deployment.grid.service_queue(region):
            return QueuedOrDirect(_queued(deployment, region, make_client))
        case "sagemaker":
            return SageMaker(deployment, region, make_client)


def logs_of(
    deployment: Deployment, region: str, backend: BackendName, make_client: ClientFactory = client
) -> ReadableLogs:
    """Return the logs of a backend in a Region.

    Raises:
        UsageError: The Region has no cluster.
    """
    match backend:
        case "eks":
            from traingrid.backends.eks.jobs import ClusterJobs  # noqa: PLC0415  # most grids have no cluster
            from traingrid.backends.eks.log import EksLogs  # noqa: PLC0415  # as above

            return EksLogs(ClusterJobs(deployment, region, make_client))
        case "sagemaker" if queue := deployment.grid.service_queue(region):
            return SageMakerLogs(deployment, region, make_client, ServiceJobs(queue, region, make_client).log_names)
        case "sagemaker":
            return SageMakerLogs(deployment, region, make_client)


def inventory_of(
    deployment: Deployment, region: str, make_client: ClientFactory = background_client, role: str = ""
) -> Inventory:
    """Return the training jobs of a grid in a Region, which may have left the grid, on all backends that it has.

    Args:
        role: The ARN of the process's role, if it is not the role of the deployment's `part`; for errors of a cluster.
    """
    settings = deployment.grid.regions.get(region)
    backends: tuple[BackendName, ...] = settings.backends if settings else (DEFAULT_BACKEND,)
    inventories = {backend: _inventory(deployment, region, backend, make_client, role) for backend in backends}
    return JointInventory(inventories) if len(backends) > 1 else inventories[backends[0]]


def _inventory(
    deployment: Deployment, region: str, backend: BackendName, make_client: ClientFactory, role: str
) -> Inventory:
    match backend:
        case "eks":
            from traingrid.backends.eks.inventory import EksInventory  # noqa: PLC0415  # most grids have no cluster

            return EksInventory(deployment, region, make_client, role)
        case "sagemaker" if queue := deployment.grid.service_queue(region):
            return QueuedInventory(deployment, region, queue, make_client)
        case "sagemaker":
            return SageMakerInventory(deployment, region, make_client)


def _queued(deployment: Deployment, region: str, make_client: ClientFactory) -> Queued:
    if not deployment.grid.service_queue(region):
        text = f"The job must be queued in {region}, which has no service queue."
        raise UsageError(text, "Add a service_queue to the Region in grid.yaml, deploy, and submit the line again.")
    return Queued(deployment, region, make_client, client_without_retries)


def _eks(deployment: Deployment, region: str, make_client: ClientFactory) -> Backend:
    from traingrid.backends.eks.backend import Eks  # noqa: PLC0415  # most grids have no cluster

    return Eks(deployment, region, make_client)
