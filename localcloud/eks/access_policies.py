"""Access policies: EKS's own permissions for Kubernetes objects.

Their rules are the tables of https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html. They are
similar to Kubernetes' roles for users (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles),
which every cluster has; here both have the same rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.credentials.arn import name_of_arn
from localcloud.iam.evaluation import matches
from localcloud.kubernetes.rbac import Access, allows

Rule = Mapping[str, Any]
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")


@dataclass(frozen=True)
class Scope:
    """Where an associated policy applies.

    Attributes:
        namespaces: Namespaces, with wildcards; empty for the whole cluster.
        associated: Time of the association, in seconds since 1970.
        modified: Time of its last change.
    """

    namespaces: tuple[str, ...]
    associated: float
    modified: float


def _rule(group: str, verbs: tuple[str, ...], resources: str) -> Rule:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}


_VIEW = (
    _rule(
        "apps",
        _READ,
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets "
        "replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    _rule("autoscaling", _READ, "horizontalpodautoscalers horizontalpodautoscalers/status"),
    _rule("batch", _READ, "cronjobs cronjobs/status jobs jobs/status"),
    _rule("discovery.k8s.io", _READ, "endpointslices"),
    _rule("networking.k8s.io", _READ, "ingresses ingresses/status networkpolicies"),
    _rule("policy", _READ, "poddisruptionbudgets poddisruptionbudgets/status"),
    _rule(
        "",
        _READ,
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers "
        "replicationcontrollers/scale serviceaccounts services services/status bindings events limitranges "
        "namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status "
        "namespaces",
    ),
)
_EDIT = (
    *_VIEW,
    _rule(
        "apps",
        _WRITE,
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets "
        "statefulsets/scale",
    ),
    _rule("autoscaling", _WRITE, "horizontalpodautoscalers"),
    _rule("batch", _WRITE, "cronjobs jobs"),
    _rule("networking.k8s.io", _WRITE, "ingresses networkpolicies"),
    _rule("policy", _WRITE, "poddisruptionbudgets"),
    _rule("", _READ, "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    _rule("", ("impersonate",), "serviceaccounts"),
    _rule("", _WRITE, "pods pods/attach pods/exec pods/portforward pods/proxy"),
    _rule(
        "",
        _WRITE,
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
        "serviceaccounts services services/proxy",
    ),
)
_ADMIN = (
    *_EDIT,
    _rule("authorization.k8s.io", ("create",), "localsubjectaccessreviews"),
    _rule("rbac.authorization.k8s.io", (*_READ, *_WRITE), "rolebindings roles"),
)
_CLUSTER_ADMIN = (_rule("*", ("*",), "*"),)

POLICIES: Mapping[str, tuple[Rule, ...]] = {
    "AmazonEKSAdminPolicy": _ADMIN,
    "AmazonEKSAdminViewPolicy": (_rule("*", _READ, "*"),),
    "AmazonEKSClusterAdminPolicy": _CLUSTER_ADMIN,
    "AmazonEKSEditPolicy": _EDIT,
    "AmazonEKSSecretReaderPolicy": (_rule("", _READ, "secrets"),),
    "AmazonEKSViewPolicy": _VIEW,
}
"""The rules of the policies for people and applications; those of EKS's own components are left out, and so is the API
group `extensions`, which Kubernetes removed in version 1.22."""
USER_FACING_ROLES: Mapping[str, tuple[Rule, ...]] = {
    "cluster-admin": _CLUSTER_ADMIN,
    "admin": _ADMIN,
    "edit": _EDIT,
    "view": _VIEW,
}
"""The rules of Kubernetes' ClusterRoles for users, by name."""


def policy_arn(name: str) -> str:
    """Return the ARN of an access policy."""
    return f"arn:aws:eks::aws:cluster-access-policy/{name}"


def policy_allows(arn: str, scope: Scope, access: Access) -> bool:
    """Return True if an associated policy allows an access."""
    rules = POLICIES[name_of_arn(arn)]
    inside = access.namespace and any(matches(pattern, access.namespace) for pattern in scope.namespaces)
    return bool(inside or not scope.namespaces) and any(allows(rule, access) for rule in rules)
