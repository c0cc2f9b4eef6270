"""Kinds: the objects of a cluster that the check-up reads."""

from dataclasses import dataclass

from traingrid.deploy.cluster_access import KUEUE, RBAC
from traingrid.kubernetes.client import Kind


@dataclass(frozen=True, kw_only=True)
class _Outside(Kind):
    """A kind of objects in another namespace, or in none or all of them."""

    namespace: str = ""

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of all objects, or of one object."""
        del namespace
        if self.namespace:
            return super().path(self.namespace, name)
        root = "apis" if "/" in self.version else "api"
        return f"/{root}/{self.version}/{self.plural}" + (f"/{name}" if name else "")


NAMESPACE = _Outside(version="v1", kind="Namespace", plural="namespaces")
ACCESS_REVIEW = _Outside(version="authorization.k8s.io/v1", kind="SubjectAccessReview", plural="subjectaccessreviews")
DEPLOYMENT = _Outside(version="apps/v1", kind="Deployment", plural="deployments")
"""The Deployments of all namespaces."""
OPERATOR_DEPLOYMENT = _Outside(version="apps/v1", kind="Deployment", plural="deployments", namespace="mpi-operator")
"""The Deployments of the namespace into which mpi-operator's own manifest installs it
(https://github.com/kubeflow/mpi-operator/tree/master/deploy)."""
SERVICE_ACCOUNT = Kind(version="v1", kind="ServiceAccount", plural="serviceaccounts")
CLAIM = Kind(version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
ROLE = Kind(version=f"{RBAC}/v1", kind="Role", plural="roles")
ROLE_BINDING = Kind(version=f"{RBAC}/v1", kind="RoleBinding", plural="rolebindings")
QUEUES = tuple(
    Kind(version=f"{KUEUE}/{version}", kind="LocalQueue", plural="localqueues") for version in ("v1beta2", "v1beta1")
)
