"""Auto Mode: the labels of nodes by which pods may choose nodes in a cluster of EKS Auto Mode.

Its Karpenter adds the requirements of a pod to the NodeClaim of its node, and the API refuses a NodeClaim with another
label of the domain eks.amazonaws.com, which open-source Karpenter admits
(https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html#auto-supported-labels,
https://github.com/komodorio/helm-charts/pull/640 and https://github.com/awslabs/ai-on-eks/pull/376; the first words
of the text are those of https://github.com/aws/karpenter-provider-aws/issues/7534).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localcloud.kubernetes.controllers.node_fit import required_terms

if TYPE_CHECKING:
    from localcloud.kubernetes.store import Object

_DOMAIN = "eks.amazonaws.com"
_OF_INSTANCES = (
    *("category", "cpu", "cpu-manufacturer", "ebs-bandwidth", "encryption-in-transit-supported", "family"),
    *("generation", "gpu-count", "gpu-manufacturer", "gpu-memory", "gpu-name", "hypervisor", "local-nvme", "memory"),
    *("network-bandwidth", "size"),
)
_KNOWN = frozenset({f"{_DOMAIN}/compute-type", *(f"{_DOMAIN}/instance-{name}" for name in _OF_INSTANCES)})


def refusal(pod: Object) -> str:
    """Return why Auto Mode creates no node for a pod; an empty text if it may."""
    keys = list(pod["spec"].get("nodeSelector") or {})
    keys += [expression["key"] for term in required_terms(pod) for expression in term.get("matchExpressions") or []]
    for number, key in enumerate(keys):
        domain = key.partition("/")[0]
        if key not in _KNOWN and (domain == _DOMAIN or domain.endswith(f".{_DOMAIN}")):
            place = f'spec.requirements[{number}].key: Invalid value: "string"'
            text = f'NodeClaim.karpenter.sh "default" is invalid: {place}: label domain "{_DOMAIN}" is restricted'
            return f"Failed to schedule pod, creating node claim, {text}"
    return ""
