"""Training objects: everything from which the object of a training job is made, without access to a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from traingrid.grid.eks import EksCluster
from traingrid.job.job import Job, ObjectKind
from traingrid.names import TrainingJobName


@dataclass(frozen=True, kw_only=True)
class TrainingObject:
    """A training job that is to be created in a cluster.

    Attributes:
        name: The training job's name, which is also the object's name.
        cluster: The `eks` section of that Region in grid.yaml.
        auto_mode: True for a cluster of EKS Auto Mode.
        request: The CreateTrainingJob request that describes the job.
        tags: All tags of the line and the grid.
        pod_image: The image of the containers that provide /opt/ml.
    """

    grid: str
    name: str
    identity: TrainingJobName
    job: Job
    region: str
    cluster: EksCluster
    cluster_arn: str
    auto_mode: bool
    request: Mapping[str, Any]
    fingerprint: str
    tags: Mapping[str, str]
    pod_image: str

    @property
    def kind(self) -> ObjectKind:
        """The kind of the object."""
        return self.cluster.kind_of(self.job)

    @property
    def queue(self) -> str:
        """The LocalQueue of Kueue; empty for none."""
        return self.job.eks_queue or self.cluster.queue or ""

    @property
    def arn(self) -> str:
        """The ARN of the training job as its program sees it; its description's ARN also has the object's uid."""
        return f"{self.cluster_arn}/{self.cluster.namespace}/{self.kind}s/{self.name}"
