"""EKS clusters: the `eks` section of a training Region in grid.yaml, a user's own cluster that runs training jobs."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from traingrid.grid.field_types import BucketName, broken_rule
from traingrid.grid.file_systems import FileSystemId
from traingrid.grid.part import GridPart
from traingrid.job.job import Job, ObjectKind

ClusterName = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$", strict=True)]
"""The shape ClusterName of EKS' service model in botocore."""
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", strict=True)]
"""A DNS label, as names of namespaces must be
(https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names)."""
ClassName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$", strict=True)]
"""A DNS subdomain that fits into a label, with which Kueue finds the class
(https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/)."""
LabelValue = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$", strict=True)
]
"""The value of a label
(https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set)."""
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", strict=True
    ),
]


INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The label with the instance type of a node
(https://kubernetes.io/docs/reference/labels-annotations-taints/#nodekubernetesioinstance-type)."""


class Toleration(GridPart):
    """A toleration of the pods, with which they may run on nodes that have a taint.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/.
    """

    key: LabelKey = Field(examples=["team"])
    """Key of the taint."""
    operator: Literal["Equal", "Exists"] = Field(default="Equal", examples=["Exists"])
    """Equal if the value must match, or Exists for any value."""
    value: LabelValue = Field(default="", examples=["research"])
    """Value of the taint."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(default="", examples=["NoSchedule"])
    """Effect of the taint; by default all effects."""


class EksCluster(GridPart):
    """A cluster of Amazon EKS in the Region and its account, which the grid does not create."""

    cluster: ClusterName = Field(examples=["research"])
    """Name of the cluster."""
    namespace: ObjectName = Field(default="traingrid", examples=["training"])
    """Namespace of the training jobs."""
    service_account: ObjectName = Field(default="traingrid", examples=["training"])
    """Service account of the pods in that namespace, which gets the Region's execution role by Pod Identity."""
    kind: ObjectKind = Field(default="job", examples=["mpijob"])
    """Kind of object of a training job: `job`, an Indexed Job, or `mpijob`, which requires Kubeflow's MPI operator."""
    queue: ObjectName | None = Field(default=None, examples=["gpus"])
    """LocalQueue of Kueue in which training jobs wait; by default they start when nodes have room."""
    queue_priority: ClassName | None = Field(default=None, examples=["training-priority"])
    """WorkloadPriorityClass of Kueue of training jobs in a queue; by default they have the priority of their pods."""
    s3_volumes: dict[BucketName, ObjectName] = Field(default={}, examples=[{"my-campaigns-eu-west-1": "campaigns"}])
    """PersistentVolumeClaims of Mountpoint for Amazon S3 by bucket, which channels with FastFile require."""
    file_system_volumes: dict[FileSystemId, ObjectName] = Field(
        default={}, examples=[{"fs-0123456789abcdef0": "recordings"}]
    )
    """PersistentVolumeClaims of FSx for Lustre and EFS by file system, which channels on file systems require."""
    node_selector: dict[LabelKey, LabelValue] = Field(default={}, examples=[{"karpenter.sh/capacity-type": "reserved"}])
    """Labels of nodes on which the pods may run, besides those of the instance type and of spot instances; by default
    all nodes."""
    tolerations: tuple[Toleration, ...] = Field(default=(), examples=[[{"key": "team", "value": "research"}]])
    """Tolerations of the pods, besides those for GPUs and EFA."""

    @model_validator(mode="after")
    def _leaves_the_instance_type_to_lines(self) -> Self:
        if INSTANCE_TYPE in self.node_selector:
            rule = f"{INSTANCE_TYPE} is the instance_type of each line; remove it from node_selector"
            raise broken_rule(rule, at="node_selector")
        return self

    def kind_of(self, job: "Job") -> ObjectKind:
        """Return the kind of object of a job's training jobs, which is the job's own or that of the Region."""
        return job.eks_kind or self.kind

    @property
    def place(self) -> str:
        """The cluster, namespace and service account of the pods, to which the deployment grants access."""
        return f"{self.cluster}/{self.namespace}/{self.service_account}"
