"""RBAC: decides whether the roles of a cluster allow a request, and words the refusal.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/. Not modelled: the rule that a user cannot create
a role with more permissions than the user has, aggregated roles, and impersonation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE, ROLE, ROLE_BINDING
from localcloud.kubernetes.status import ApiError, forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from localcloud.kubernetes.paths import Target
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Store

AUTHENTICATED = "system:authenticated"
"""The group of every user with a valid token."""


@dataclass(frozen=True, kw_only=True)
class User:
    """A user of a cluster.

    Attributes:
        groups: The groups, including AUTHENTICATED.
    """

    name: str
    groups: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Access:
    """An access that a user asks for.

    Attributes:
        group: The API group.
        resource: The plural of the resource, with the subresource, for example "pods/log".
        namespace: The namespace; empty for all, and for objects without a namespace.
        name: The object's name; empty for all objects, and for an object to create.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def access_to(target: Target, verb: str) -> Access:
    """Return the access that a request to a target needs."""
    subresource = f"/{target.subresource}" if target.subresource else ""
    # A namespace is in itself: https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request#RequestInfo
    namespace = target.name if target.resource is NAMESPACE else target.namespace
    plural = target.resource.plural + subresource
    return Access(verb=verb, group=target.resource.group, resource=plural, namespace=namespace, name=target.name)


def is_bound(store: Store, user: User, access: Access) -> bool:
    """Return True if a role that is bound to a user, or to a group of the user, allows the access."""
    return any(allows(rule, access) for rule in _rules(store, user, access.namespace))


def allows(rule: Mapping[str, Any], access: Access) -> bool:
    """Return True if a rule of a role allows an access."""
    names = rule.get("resourceNames") or []
    return (
        _includes(rule.get("verbs"), access.verb)
        and _includes(rule.get("apiGroups"), access.group)
        and _includes_resource(rule.get("resources"), access.resource)
        and (not names or access.name in names)
    )


def refused(user: User, target: Target, access: Access) -> ApiError:
    """Return the error for an access that no rule allows.

    The text is that of kube-apiserver's package `responsewriters`, function `forbiddenMessage`.
    """
    scope = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    text = f'User "{user.name}" cannot {access.verb} resource "{access.resource}" in API group "{access.group}" {scope}'
    return forbidden(target.resource, target.name, text)


def _includes(values: Iterable[str] | None, requested: str) -> bool:
    return any(value in ("*", requested) for value in values or ())


def _includes_resource(values: Iterable[str] | None, resource: str) -> bool:
    """Return True if a rule names a resource; "*/log" is the subresource of every resource."""
    subresource = re.sub(r"^[^/]*", "*", resource)
    return any(value in ("*", resource) or (value == subresource and "/" in resource) for value in values or ())


def _rules(store: Store, user: User, namespace: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rules of every role that is bound to a user in a namespace or in the whole cluster."""
    bindings = list(store.all(CLUSTER_ROLE_BINDING)[0])
    if namespace:
        bindings += store.all(ROLE_BINDING, namespace)[0]
    for binding in bindings:
        namespace = binding["metadata"].get("namespace", "")
        if any(_is_subject(subject, user, namespace) for subject in binding.get("subjects") or []):
            yield from _rules_of(store, binding["roleRef"], namespace)


def _is_subject(subject: Mapping[str, str], user: User, namespace: str) -> bool:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return name == user.name if subject.get("kind") == "User" else name in user.groups


def _rules_of(store: Store, reference: Mapping[str, str], namespace: str) -> list[Mapping[str, Any]]:
    """Return the rules of a role; none if it does not exist."""
    kind: Resource = CLUSTER_ROLE if reference["kind"] == "ClusterRole" else ROLE
    try:
        role = store.get(kind, "" if kind is CLUSTER_ROLE else namespace, reference["name"])
    except ApiError:
        return []
    return role.get("rules") or []
