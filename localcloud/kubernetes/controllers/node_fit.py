"""Node fit: whether a pod may run on a node, with the scheduler's reasons.

Sources: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/; the texts are those of
pkg/scheduler/framework/plugins of Kubernetes. The first plugin that refuses a node gives the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.quantities import amount, requests
from localcloud.kubernetes.selectors import matches_labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localcloud.kubernetes.store import Object

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def misfits(pod: Object, node: Object, pods: Sequence[Object], nodes: Sequence[Object]) -> list[str]:
    """Return the reasons why a pod may not run on a node; none if it may.

    Args:
        pods: The pods on all nodes that have not ended.
        nodes: All nodes.
    """
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    pods_of_node = [other_pod for other_pod in pods if other_pod["spec"].get("nodeName") == node["metadata"]["name"]]
    if node.get("spec", {}).get("unschedulable") and not _is_tolerated(_UNSCHEDULABLE, spec):
        return ["node(s) were unschedulable"]
    taints = [taint for taint in node.get("spec", {}).get("taints") or [] if taint["effect"] != "PreferNoSchedule"]
    if any(not _is_tolerated(taint, spec) for taint in taints):
        return ["node(s) had untolerated taint(s)"]
    if not _is_selected(spec, labels, node["metadata"]["name"]):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return (
        _lacking_resources(pod, node, pods_of_node)
        or _attraction(pod, node, pods, nodes)
        or _repulsion(pod, node, pods_of_node)
    )


def may_fit_alone(pod: Object, node: Object) -> bool:
    """Return True if a pod could run on a node that its other pods leave.

    Affinity to pods elsewhere counts as met, although the scheduler counts it as an obstacle.
    """
    return not misfits(pod, node, [], [node])


def required_terms(pod: Object) -> list[Mapping[str, Any]]:
    """Return the terms of a pod's node affinity, of which one must match."""
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_TERMS) or {}
    return list(affinity.get("nodeSelectorTerms") or [])


def term_matches(term: Mapping[str, Any], labels: Mapping[str, str], name: str = "") -> bool:
    """Return True if the labels and the name of a node match a term."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_matches(expression, labels) for expression in expressions) and all(
        _matches(expression, {"metadata.name": name}) for expression in fields
    )


def tolerates(taints: Sequence[Mapping[str, Any]], spec: Mapping[str, Any]) -> bool:
    """Return True if a pod tolerates all taints."""
    return all(_is_tolerated(taint, spec) for taint in taints)


def _is_selected(spec: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    selector = spec.get("nodeSelector") or {}
    terms = required_terms({"spec": spec})
    return selector.items() <= labels.items() and (not terms or any(term_matches(term, labels, name) for term in terms))


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values = expression.get("values") or []
    operator = expression["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    if operator in ("Gt", "Lt"):
        if value is None or not value.isdigit():
            return False
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return (value in values) is (operator == "In")


def _is_tolerated(taint: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    for toleration in spec.get("tolerations") or []:
        same_effect = toleration.get("effect") in (None, "", taint["effect"])
        same_key = toleration.get("key") in (None, "", taint["key"])
        exists = toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")
        if same_effect and same_key and exists and (toleration.get("key") or toleration.get("operator") == "Exists"):
            return True
    return False


def _lacking_resources(pod: Object, node: Object, pods_of_node: Sequence[Object]) -> list[str]:
    offered = (node.get("status") or {}).get("allocatable") or {}
    free = {name: int(amount(value) * 1000) for name, value in offered.items()}
    for other_pod in pods_of_node:
        for name, value in requests(other_pod["spec"]).items():
            free[name] = free.get(name, 0) - value
    short = [name for name, value in requests(pod["spec"]).items() if value > free.get(name, 0)]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def _attraction(pod: Object, node: Object, pods: Sequence[Object], nodes: Sequence[Object]) -> list[str]:
    """Return the reason of affinity to other pods.

    The first pod of several that have affinity to themselves may be on any node that has the labels
    (https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#scheduling-a-group-of-pods-with-inter-pod-affinity-to-themselves).
    """
    terms = ((pod["spec"].get("affinity") or {}).get("podAffinity") or {}).get(_TERMS) or []
    labels = node["metadata"].get("labels") or {}
    labels_by_node = {
        other_node["metadata"]["name"]: other_node["metadata"].get("labels") or {} for other_node in nodes
    }
    places = [
        labels_by_node.get(other_pod["spec"]["nodeName"], {})
        for other_pod in pods
        if terms and _attracts(pod, terms, other_pod)
    ]
    is_first = not places and _attracts(pod, terms, pod)
    for term in terms:
        value = labels.get(term["topologyKey"])
        if value is None or not (is_first or any(place.get(term["topologyKey"]) == value for place in places)):
            return ["node(s) didn't match pod affinity rules"]
    return []


def _attracts(owner: Object, terms: Sequence[Mapping[str, Any]], other_pod: Object) -> bool:
    """Return True if a pod matches all terms of a pod's affinity."""
    namespace = owner["metadata"]["namespace"]
    labels = other_pod["metadata"].get("labels") or {}
    return all(
        other_pod["metadata"]["namespace"] in (term.get("namespaces") or [namespace])
        and matches_labels(term.get("labelSelector"), labels)
        for term in terms
    )


def _repulsion(pod: Object, node: Object, pods_of_node: Sequence[Object]) -> list[str]:
    """Return the reason of anti-affinity. Each topology is a node here."""
    if any(_repels(pod, other_pod, node) for other_pod in pods_of_node):
        return ["node(s) didn't match pod anti-affinity rules"]
    if any(_repels(other_pod, pod, node) for other_pod in pods_of_node):
        return ["node(s) didn't satisfy existing pods anti-affinity rules"]
    return []


def _repels(owner: Object, other_pod: Object, node: Object) -> bool:
    """Return True if the anti-affinity of one pod excludes another one from a node that both would share."""
    terms = ((owner["spec"].get("affinity") or {}).get("podAntiAffinity") or {}).get(_TERMS) or []
    namespace = owner["metadata"]["namespace"]
    for term in terms:
        is_known = term["topologyKey"] in (node["metadata"].get("labels") or {})
        same = other_pod["metadata"]["namespace"] in (term.get("namespaces") or [namespace])
        if is_known and same and matches_labels(term.get("labelSelector"), other_pod["metadata"].get("labels") or {}):
            return True
    return False
