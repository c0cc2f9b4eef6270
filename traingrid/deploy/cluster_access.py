"""Access to a cluster: the namespace of a grid, its service account, and the Roles of the grid's groups.

A person applies the objects once: `traingrid eks access REGION | kubectl apply -f -`. The deployment creates the access
entries that give the groups to the grid's IAM roles (stacks/eks_access.py).

Source of the objects' form: https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.eks import EksCluster
    from traingrid.names import Part

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
BATCH, KUBEFLOW, KUEUE = "batch", "kubeflow.org", "kueue.x-k8s.io"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of a Role.

    Attributes:
        group: The API group; empty for the core group.
    """

    group: str = ""
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def to_object(self) -> Object:
        """Return the rule as a part of a Role."""
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}


_LOGS_AND_EVENTS = (
    Rule(resources=("pods/log",), verbs=("get",)),
    Rule(resources=("events",), verbs=("list",)),
)
_STARTS = ("get", "list", "watch", "create", "patch", "delete")
_STOPS = ("get", "list", "patch", "delete")

RULES: dict[Part, tuple[Rule, ...]] = {
    "launch": (
        Rule(group=BATCH, resources=("jobs",), verbs=_STARTS),
        Rule(group=KUBEFLOW, resources=("mpijobs",), verbs=_STARTS),
        Rule(resources=("pods",), verbs=("get", "list", "watch", "delete")),
        Rule(resources=("services",), verbs=("get", "create")),
        *_LOGS_AND_EVENTS,
    ),
    "sweep": (
        Rule(group=BATCH, resources=("jobs",), verbs=_STOPS),
        Rule(group=KUBEFLOW, resources=("mpijobs",), verbs=_STOPS),
        Rule(resources=("pods",), verbs=("get", "list", "delete")),
        *_LOGS_AND_EVENTS,
    ),
    "use": (
        Rule(group=BATCH, resources=("jobs",), verbs=_STOPS),
        Rule(group=KUBEFLOW, resources=("mpijobs",), verbs=_STOPS),
        Rule(resources=("pods",), verbs=("get", "list", "delete")),
        *_LOGS_AND_EVENTS,
        Rule(resources=("namespaces", "serviceaccounts", "persistentvolumeclaims"), verbs=("get",)),
        Rule(group=KUEUE, resources=("localqueues",), verbs=("get",)),
        Rule(group=RBAC, resources=("roles", "rolebindings"), verbs=("get",)),
    ),
}
"""The permissions of each part in the namespace. No rule names secrets, and the reconciler cannot create anything."""


def role_name(grid: str, part: Part) -> str:
    """Return the name of a part's Role, and of its RoleBinding."""
    return f"traingrid-{grid}-{part}"


def access_objects(grid: str, settings: EksCluster) -> Iterator[Object]:
    """Yield the objects to apply to a cluster, in order.

    Args:
        settings: The Region's `eks` section.
    """
    place = {"namespace": settings.namespace}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.namespace}}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**place, "name": settings.service_account}}
    for part, rules in RULES.items():
        metadata = {**place, "name": role_name(grid, part), "labels": {"traingrid/grid": grid}}
        yield {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [rule.to_object() for rule in rules],
        }
        yield {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role_name(grid, part)},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": names.kubernetes_group(grid, part)}],
        }
