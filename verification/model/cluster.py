"""In-memory clusters: a second engine beside SageMaker, on which the same invariants hold.

The real backend of EKS composes Kubernetes objects, which are not needed here: failover depends on the protocols
`Backend` and `Inventory` only. So a cluster accepts, describes and stops training jobs as SageMaker does, with two
differences: it sends no events, and a new training job is visible at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import Maker, client, gentle, once
from traingrid.backends.sagemaker import SageMaker
from traingrid.backends.sagemaker_inventory import SageMakerInventory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.backends.base import Backend
    from traingrid.backends.found_job import TrainingJob
    from traingrid.backends.inventory import Details, Inventory
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.job.observed import Seen
    from traingrid.ledger.items import JobItem

CLUSTER = "eks"
"""The name of the service whose clients reach the clusters of an `Account`."""


def _of_cluster(make: Maker) -> Maker:
    def made(service: str, *arguments: Any) -> Any:
        return make(CLUSTER if service == "sagemaker" else service, *arguments)

    return made


class Cluster(SageMaker):
    """The backend of a Region's cluster."""

    def __init__(self, deployment: Deployment, region: str, make: Maker = client, make_logs: Maker = client) -> None:
        super().__init__(deployment, region, _of_cluster(make), make_logs)

    def _send(self, request: dict[str, Any], _job: Job) -> None:
        self._creating = self._creating or once(CLUSTER, self._region)
        self._creating.create_training_job(**request)


class ClusterInventory(SageMakerInventory):
    """The training jobs of a Region's cluster."""

    def __init__(self, deployment: Deployment, region: str, make: Maker = gentle) -> None:
        super().__init__(deployment, region, _of_cluster(make))


class BothInventories:
    """The training jobs of a Region on both engines."""

    def __init__(self, deployment: Deployment, region: str, make: Maker = gentle) -> None:
        self._all: tuple[Inventory, ...] = (
            SageMakerInventory(deployment, region, make),
            ClusterInventory(deployment, region, make),
        )

    def listed(self, state: str = "", submission: str = "") -> Iterator[TrainingJob]:
        """See `Inventory.listed`."""
        for inventory in self._all:
            yield from inventory.listed(state, submission)

    def details(self, job: TrainingJob) -> Details | None:
        """See `Inventory.details`."""
        return self._of(job).details(job)

    def is_ours(self, job: TrainingJob, item: JobItem | None) -> bool:
        """See `Inventory.is_ours`."""
        return self._of(job).is_ours(job, item)

    def has_our_tag(self, job: TrainingJob) -> bool:
        """See `Inventory.has_our_tag`."""
        return self._of(job).has_our_tag(job)

    def stop(self, job: TrainingJob) -> bool:
        """See `Inventory.stop`."""
        return self._of(job).stop(job)

    def _of(self, job: TrainingJob) -> Inventory:
        sagemaker, cluster = self._all
        return cluster if f":{CLUSTER}:" in job.arn else sagemaker


class BothBackends:
    """Describes a Region's training jobs on both engines, for the reconciler."""

    def __init__(self, deployment: Deployment, region: str, make: Maker = client) -> None:
        self._all: tuple[Backend, ...] = (SageMaker(deployment, region, make), Cluster(deployment, region, make))

    def describe(self, name: str) -> Seen | None:
        """See `Backend.describe`. The name of an attempt is never used on both engines."""
        return next((seen for backend in self._all if (seen := backend.describe(name))), None)

    def tags(self, seen: Seen) -> dict[str, str] | None:
        """See `Backend.tags`."""
        sagemaker, cluster = self._all
        return (cluster if f":{CLUSTER}:" in seen.arn else sagemaker).tags(seen)
