"""In-memory clusters: a second engine beside SageMaker, on which the same invariants hold.

The real backend of EKS composes Kubernetes objects, which are not needed here: failover depends on the protocols
`Backend` and `Inventory` only. So a cluster accepts, describes and stops training jobs as SageMaker does, with two
differences: it sends no events, and a new training job is visible at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import ClientFactory, background_client, client, client_without_retries
from traingrid.backends.inventory import ALL, Window
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.inventory import SageMakerInventory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.backends.training_job import TrainingJob
    from traingrid.grid.deployment import Deployment
    from traingrid.job.backend_traits import BackendName

CLUSTER: BackendName = "eks"
"""The name of the service whose clients reach the clusters of an `Account`."""


def _of_cluster(make_client: ClientFactory) -> ClientFactory:
    def made(service: str, *arguments: Any) -> Any:
        return make_client(CLUSTER if service == "sagemaker" else service, *arguments)

    return made


def cluster_backend(deployment: Deployment, region: str, make_client: ClientFactory = client) -> SageMaker:
    """Return the backend of a Region's cluster."""
    return SageMaker(deployment, region, _of_cluster(make_client), _of_cluster(client_without_retries))


class ClusterInventory(SageMakerInventory):
    """The training jobs of a Region's cluster."""

    def __init__(
        self, deployment: Deployment, region: str, make_client: ClientFactory = background_client, _role: str = ""
    ) -> None:
        super().__init__(deployment, region, _of_cluster(make_client))

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """See `Inventory.listed`."""
        yield from (replace(job, backend=CLUSTER) for job in super().listed(state, submission, window))
