"""Provisioner: adds a node for a pod that fits on none, and removes empty nodes, in the manner of Karpenter.

Sources: https://karpenter.sh/docs/concepts/scheduling/ (labels and requirements), and
https://karpenter.sh/docs/concepts/disruption/ (consolidation of empty nodes, interruption of spot instances); the
texts are those of its pkg/controllers/provisioning/scheduling/nodeclaim.go. EKS Auto Mode is Karpenter, too, with other
labels (auto_mode.py). One node pool exists, which has all instance types of the Region, on demand and spot.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.controllers.auto_mode import refusal
from localcloud.kubernetes.controllers.instance_types import allocatable, capacity, general, offered
from localcloud.kubernetes.controllers.machine_share import root_of
from localcloud.kubernetes.controllers.node_fit import misfits, required_terms
from localcloud.kubernetes.events import timestamp
from localcloud.kubernetes.resources import NODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.events import EventRecorder
    from localcloud.kubernetes.store import Object
    from localcloud.server.local_cloud import LocalCloud

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
NODE_POOL = "karpenter.sh/nodepool"
_numbers = itertools.count(1)


class Provisioner:
    """The node pool of a cluster.

    Args:
        cloud: The localcloud, whose fault plan may have no capacity.
        auto_mode: True for EKS Auto Mode, False for open-source Karpenter.
    """

    def __init__(
        self, client: Client, events: EventRecorder, cloud: LocalCloud, region: str, *, auto_mode: bool = False
    ) -> None:
        self._client, self._events, self._cloud, self._region = client, events, cloud, region
        self._auto_mode = auto_mode
        # By the uid of an object: the fault plan and the instance type for which it has had no capacity.
        self._refusals: dict[str, tuple[object, str]] = {}

    def candidate(self, pod: Object, pods: Sequence[Object], nodes: Sequence[Object]) -> Object | None:
        """Return the node to add for a pod; None if none can be created, or AWS has no capacity.

        Args:
            pods: The pods on all nodes that have not ended.
            nodes: All nodes.
        """
        if self._auto_mode and (text := refusal(pod)):
            self._events.warning(pod, "FailedScheduling", text)
            return None
        root = root_of(self._client, pod)["metadata"]["uid"]
        instance_types = [kind for kind in _asked_types(pod) or general(self._region) if kind in offered(self._region)]
        for kind in instance_types:
            for spot in (False, True):
                node = self._node(kind, spot=spot)
                if misfits(pod, node, pods, nodes):
                    continue
                if self._has_capacity(root, kind):
                    return node
                text = f"insufficient capacity for instance type {kind} in {self._region}"
                self._events.warning(pod, "InsufficientCapacityError", text)
                return None
        reason = "which met the scheduling requirements and the required offering had the required resources"
        text = f"no instance type {reason if instance_types else 'met all requirements'}"
        self._events.warning(
            pod, "FailedScheduling", f'Failed to schedule pod, incompatible with nodepool "default", {text}'
        )
        return None

    def add(self, pod: Object, node: Object) -> None:
        """Add a node for a pod."""
        self._events.normal(pod, "Nominated", f"Pod should schedule on: node/{node['metadata']['name']}")
        add_node(self._client, node)

    def _has_capacity(self, root: str, kind: str) -> bool:
        """Ask the fault plan once for each object and plan, because a plan counts the jobs without capacity."""
        plan = self._cloud.faults.plan
        if self._refusals.get(root) == (plan, kind):
            return False
        names = (kind, f"ml.{kind}")
        if any(self._cloud.faults.no_capacity(self._region, name) is not None for name in names):
            self._refusals[root] = (plan, kind)
            return False
        return True

    def _node(self, kind: str, *, spot: bool) -> Object:
        number = next(_numbers)
        name = f"ip-10-0-{number // 250}-{number % 250 + 1}.{self._region}.compute.internal"
        return node_of(name, self._region, kind, spot=spot)


def add_node(client: Client, node: Object) -> None:
    """Create a node with its status."""
    created_node = client.create(NODE, "", {"metadata": node["metadata"], "spec": node["spec"]})
    client.update_status(NODE, created_node, lambda changed: changed.update(status=node["status"]))


def node_of(
    name: str, region: str, kind: str, *, spot: bool = False, labels: Mapping[str, str] | None = None, **spec: Any
) -> Object:
    """Return a node of an instance type.

    Args:
        kind: The instance type, for example "c5.xlarge"; nodes of HyperPod have the prefix "ml.".
        spot: True for a spot instance.
        labels: More labels; without them, it is a node of the node pool.
        spec: More fields of the specification, for example the taints.
    """
    now = timestamp()
    zone = f"{region}a"
    instance_type = kind.removeprefix("ml.")
    node_labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
        INSTANCE_TYPE: kind,
    }
    pool = {CAPACITY_TYPE: "spot" if spot else "on-demand", NODE_POOL: "default"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**node_labels, **(pool if labels is None else labels)}},
        "spec": {"providerID": f"aws:///{zone}/{name}", **spec},
        "status": {
            "capacity": capacity(instance_type),
            "allocatable": allocatable(instance_type),
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                **dict.fromkeys(("bootID", "machineID", "systemUUID"), name),
                "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.1.5",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.2",
                "operatingSystem": "linux",
                "osImage": "Bottlerocket",
            },
        },
    }


def _asked_types(pod: Object) -> list[str]:
    """Return the instance types that a pod's affinity or selector asks for."""
    types = [(pod["spec"].get("nodeSelector") or {}).get(INSTANCE_TYPE)]
    expressions: Iterable[Mapping[str, Any]] = (
        expression for term in required_terms(pod) for expression in term.get("matchExpressions") or []
    )
    for expression in expressions:
        if expression["key"] == INSTANCE_TYPE and expression["operator"] == "In":
            types += expression.get("values") or []
    return list(dict.fromkeys(kind for kind in types if kind))
