"""Resources: the kinds of objects that a cluster serves.

The fields of built-in kinds are those of `lightkube-models`, which is generated from Kubernetes' OpenAPI description.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lightkube.models import apps_v1, batch_v1, core_v1, rbac_v1

from localcloud.kubernetes.mpi_job_schema import MPI_JOB
from localcloud.kubernetes.schema import Schema, of_model


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource:
    """A kind of objects.

    Attributes:
        group: The API group; empty for the core group.
        version: Its version.
        plural: The name in paths.
        kind: The kind.
        short_names: The names that kubectl also accepts.
        namespaced: Whether objects are in a namespace.
        has_status: Whether the status has a path, so that updates of the object do not change it.
        has_generation: Whether the server counts the changes of its content.
        is_custom: Whether a CustomResourceDefinition describes it; the server then reports other errors.
        schema: The fields.
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


def _core(
    kind: str, plural: str, short: tuple[str, ...] = (), *, namespaced: bool = True, status: bool = False
) -> Resource:
    schema = of_model(getattr(core_v1, kind))
    return Resource(
        group="",
        version="v1",
        plural=plural,
        kind=kind,
        short_names=short,
        namespaced=namespaced,
        has_status=status,
        schema=schema,
    )


NAMESPACE = _core("Namespace", "namespaces", ("ns",), namespaced=False, status=True)
NODE = _core("Node", "nodes", ("no",), namespaced=False, status=True)
POD = replace(_core("Pod", "pods", ("po",), status=True), has_generation=True)
SERVICE = _core("Service", "services", ("svc",), status=True)
CONFIG_MAP = _core("ConfigMap", "configmaps", ("cm",))
SECRET = _core("Secret", "secrets")
EVENT = _core("Event", "events", ("ev",))
SERVICE_ACCOUNT = _core("ServiceAccount", "serviceaccounts", ("sa",))
RESOURCE_QUOTA = _core("ResourceQuota", "resourcequotas", ("quota",), status=True)
JOB = Resource(
    group="batch",
    version="v1",
    plural="jobs",
    kind="Job",
    has_status=True,
    has_generation=True,
    schema=of_model(batch_v1.Job),
)
DEPLOYMENT = Resource(
    group="apps",
    version="v1",
    plural="deployments",
    kind="Deployment",
    short_names=("deploy",),
    has_status=True,
    has_generation=True,
    schema=of_model(apps_v1.Deployment),
)
ROLE = Resource(
    group="rbac.authorization.k8s.io", version="v1", plural="roles", kind="Role", schema=of_model(rbac_v1.Role)
)
ROLE_BINDING = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="rolebindings",
    kind="RoleBinding",
    schema=of_model(rbac_v1.RoleBinding),
)
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
    RESOURCE_QUOTA,
    JOB,
    DEPLOYMENT,
    ROLE,
    ROLE_BINDING,
)
