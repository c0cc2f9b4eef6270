"""Task governance: refuses workloads without a queue in namespaces that HyperPod task governance manages.

Sources: the labels of the namespaces and the rule,
https://awslabs.github.io/ai-on-sagemaker-hyperpod/docs/eks-orchestration/add-ons/Spaces-Node-Overprovisioning/namespace-and-priorityclass;
the message, that of the example in
https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/setup_job_admission_policy; the code and the form of
a refusal, https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/. The policy also
covers Deployments and StatefulSets, which this server does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localcloud.kubernetes.resources import JOB, MPI_JOB_RESOURCE, POD
from localcloud.kubernetes.status import denied

if TYPE_CHECKING:
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object

MANAGED = {
    "sagemaker.amazonaws.com/activate-quota": "Enabled",
    "sagemaker.amazonaws.com/sagemaker-managed-queue": "true",
}
"""The labels of a managed namespace."""
_QUEUE = "kueue.x-k8s.io/queue-name"
_POLICY = "hyperpod-task-governance-admission-policy"


def check(namespace: Object, resource: Resource, new: Object) -> None:
    """Refuse a workload without a queue in a managed namespace.

    Raises:
        ApiError: The policy denies it.
    """
    if resource not in (POD, JOB, MPI_JOB_RESOURCE):
        return
    if MANAGED.items() <= (namespace["metadata"].get("labels") or {}).items():
        metadata = new["metadata"]
        if not (metadata.get("labels") or {}).get(_QUEUE):
            reason = f"The label '{_QUEUE}' is either missing or does not have a value set."
            raise denied(resource, metadata["name"], _POLICY, reason)
