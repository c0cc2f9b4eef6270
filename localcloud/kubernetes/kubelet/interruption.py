"""Interruption: the loss of a node, as of a spot instance that EC2 takes back.

Source: https://karpenter.sh/docs/concepts/disruption/#interruption: Karpenter taints the node and evicts its pods when
the warning comes, and the instance ends two minutes later.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from localcloud.kubernetes.pod_requests import evict_pod
from localcloud.kubernetes.resources import NODE, POD
from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.kubelet.kubelet import Kubelet
    from localcloud.kubernetes.store import Object

_TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
_STEP_SECONDS = 0.1


def interrupt(client: Client, kubelet: Kubelet, name: str, warning_seconds: float) -> None:
    """Evict the pods of a node, and remove it after the warning time, or earlier once no pod runs on it.

    Args:
        name: The name of the node.
        warning_seconds: The time between the warning and the end of the instance; without it, no pod is evicted.
    """
    node = client.store.get(NODE, "", name)
    client.update(NODE, node, _taint)
    if warning_seconds > 0:
        for pod in _running(client, name):
            with contextlib.suppress(ApiError):  # it has ended meanwhile
                evict_pod(client.store, pod["metadata"]["namespace"], pod["metadata"]["name"])
    arguments = (client, kubelet, name, time.monotonic() + warning_seconds)
    threading.Thread(target=_end, args=arguments, name=f"interruption-{name}", daemon=True).start()


def _end(client: Client, kubelet: Kubelet, name: str, at: float) -> None:
    while time.monotonic() < at and _running(client, name):
        time.sleep(_STEP_SECONDS)
    kubelet.lose_node(name)
    client.delete(NODE, "", name)


def _running(client: Client, name: str) -> list[Object]:
    def runs(pod: Object) -> bool:
        return bool(pod["spec"].get("nodeName") == name and pod["status"].get("phase") not in ("Succeeded", "Failed"))

    return client.store.all(POD, where=runs)[0]


def _taint(node: Object) -> None:
    node["spec"]["taints"] = [*(node["spec"].get("taints") or []), _TAINT]
