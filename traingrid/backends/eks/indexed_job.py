"""Indexed Jobs: the `batch/v1` Job of a training job, with one index for each host.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/.
"""

from collections.abc import Mapping
from typing import Any

from traingrid.backends.eks import labels
from traingrid.backends.eks.owned_pods import CONTROLLER_UID
from traingrid.backends.eks.pod_template import object_metadata, pod_template
from traingrid.backends.eks.training_object import TrainingObject

_QUEUE = (labels.QUEUE, labels.QUEUE_PRIORITY)


def indexed_job(training_object: TrainingObject) -> dict[str, Any]:
    """Return the Job of a training job.

    A failed host fails the Job, and no pod is replaced. The failure policy keeps the fact that a pod was evicted, or
    its node drained or lost, in the Job, because the pod itself will be gone.
    """
    hosts = training_object.job.instance_count
    disrupted = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": object_metadata(training_object),
        "spec": {
            "completionMode": "Indexed",
            "completions": hosts,
            "parallelism": hosts,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [disrupted]},
            "template": pod_template(training_object),
        },
    }


def headless_service(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Service that makes the host names of a created Job resolve, also before its pods are ready.

    The Job owns it, so it is deleted with the Job. It selects the pods by the label by which the Job does.
    """
    metadata = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {name: value for name, value in metadata["labels"].items() if name not in _QUEUE},
            "ownerReferences": [owner],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {CONTROLLER_UID: metadata["uid"]},
        },
    }
