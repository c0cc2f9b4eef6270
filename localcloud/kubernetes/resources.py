"""Resources: the kinds of objects that a cluster serves.

The fields of built-in kinds are those of `lightkube-models`, which is generated from Kubernetes' OpenAPI description.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightkube.models import apps_v1, batch_v1, core_v1, rbac_v1

from localcloud.kubernetes.mpi_job_schema import MPI_JOB
from localcloud.kubernetes.schema import Schema, of_model


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource:
    """A kind of objects.

    Attributes:
        group: The API group; empty for the core group.
        plural: The name in paths.
        short_names: The names that kubectl also accepts.
        namespaced: Whether objects are in a namespace.
        has_status: Whether the status has a path, so that updates of the object do not change it.
        has_generation: Whether the server counts the changes of its content.
        is_custom: Whether a CustomResourceDefinition describes it; the server then reports other errors.
    """

    group: str
    version: str
    plural: str
    kind: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    is_custom: bool = False
    schema: Schema

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """The plural with the group, as errors name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """The kind with the group, as errors name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _built_in(model: type, plural: str, *short_names: str, group: str = "", **facts: bool) -> Resource:
    """Return the resource of a kind in `lightkube-models`; `facts` are the attributes that differ from the defaults."""
    return Resource(
        group=group,
        version="v1",
        plural=plural,
        kind=model.__name__,
        short_names=short_names,
        schema=of_model(model),
        **facts,
    )


_RBAC = "rbac.authorization.k8s.io"
NAMESPACE = _built_in(core_v1.Namespace, "namespaces", "ns", namespaced=False, has_status=True)
NODE = _built_in(core_v1.Node, "nodes", "no", namespaced=False, has_status=True)
POD = _built_in(core_v1.Pod, "pods", "po", has_status=True, has_generation=True)
SERVICE = _built_in(core_v1.Service, "services", "svc", has_status=True)
CONFIG_MAP = _built_in(core_v1.ConfigMap, "configmaps", "cm")
SECRET = _built_in(core_v1.Secret, "secrets")
EVENT = _built_in(core_v1.Event, "events", "ev")
SERVICE_ACCOUNT = _built_in(core_v1.ServiceAccount, "serviceaccounts", "sa")
CLAIM = _built_in(core_v1.PersistentVolumeClaim, "persistentvolumeclaims", "pvc", has_status=True)
VOLUME = _built_in(core_v1.PersistentVolume, "persistentvolumes", "pv", namespaced=False, has_status=True)
RESOURCE_QUOTA = _built_in(core_v1.ResourceQuota, "resourcequotas", "quota", has_status=True)
JOB = _built_in(batch_v1.Job, "jobs", group="batch", has_status=True, has_generation=True)
DEPLOYMENT = _built_in(apps_v1.Deployment, "deployments", "deploy", group="apps", has_status=True, has_generation=True)
ROLE = _built_in(rbac_v1.Role, "roles", group=_RBAC)
ROLE_BINDING = _built_in(rbac_v1.RoleBinding, "rolebindings", group=_RBAC)
CLUSTER_ROLE = _built_in(rbac_v1.ClusterRole, "clusterroles", group=_RBAC, namespaced=False)
CLUSTER_ROLE_BINDING = _built_in(rbac_v1.ClusterRoleBinding, "clusterrolebindings", group=_RBAC, namespaced=False)
MPI_JOB_RESOURCE = Resource(
    group="kubeflow.org",
    version="v2beta1",
    plural="mpijobs",
    kind="MPIJob",
    short_names=("mj",),
    has_status=True,
    has_generation=True,
    is_custom=True,
    schema=MPI_JOB,
)
BUILT_IN = (
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    EVENT,
    SERVICE_ACCOUNT,
    CLAIM,
    VOLUME,
    RESOURCE_QUOTA,
    JOB,
    DEPLOYMENT,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
)
