"""Access: the objects that give a grid access to one namespace of a cluster, for `kubectl apply`.

The stacks create access entries that map the grid's roles to these groups. EKS's own access policies would allow more:
AmazonEKSEditPolicy may read secrets, and would let the reconciler create training jobs
(https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.eks import EksCluster

Group = Literal["launch", "sweep", "use"]
"""The parts of a grid that use a cluster: children, the reconciler with the guard, and users of another account."""

_Rules = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
"""The API group, the resources and the verbs of each rule."""
_RBAC = "rbac.authorization.k8s.io"
_MANAGES: _Rules = (
    ("batch", ("jobs",), ("get", "list", "patch", "delete")),
    ("kubeflow.org", ("mpijobs",), ("get", "list", "patch", "delete")),
    ("", ("pods",), ("get", "list", "delete")),
    ("", ("pods/log",), ("get",)),
    ("", ("events",), ("list",)),
)
_LAUNCHES: _Rules = (
    ("batch", ("jobs",), ("get", "list", "watch", "create", "patch", "delete")),
    ("kubeflow.org", ("mpijobs",), ("get", "list", "watch", "create", "patch", "delete")),
    ("", ("pods",), ("get", "list", "watch", "delete")),
    ("", ("pods/log",), ("get",)),
    ("", ("services",), ("get", "create")),
    ("", ("events",), ("list",)),
)
RULES: dict[Group, _Rules] = {"launch": _LAUNCHES, "sweep": _MANAGES, "use": _MANAGES}
"""The rules of each group; only children create."""


def kubernetes_group(grid: str, group: Group) -> str:
    """Return the Kubernetes group of an access entry."""
    return f"traingrid:{grid}:{group}"


def access_objects(grid: str, cluster: EksCluster) -> Iterator[dict[str, Any]]:
    """Yield the namespace, the service account of pods, and the roles of a grid with their bindings.

    Args:
        grid: The grid's name.
        cluster: The `eks` section of a Region.
    """
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}}
    account = {"name": cluster.service_account, "namespace": cluster.namespace}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account, "automountServiceAccountToken": False}
    for group, rules in RULES.items():
        metadata = {"name": f"traingrid-{grid}-{group}", "namespace": cluster.namespace}
        yield {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": dict(metadata),
            "rules": [
                {"apiGroups": [api], "resources": list(resources), "verbs": list(verbs)}
                for api, resources, verbs in rules
            ],
        }
        yield {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": dict(metadata),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": metadata["name"]},
            "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": kubernetes_group(grid, group)}],
        }
