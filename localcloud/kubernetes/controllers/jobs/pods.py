"""Pods: the pods that a job creates.

Source: pkg/controller/job/job_controller.go and indexed_job_utils.go of Kubernetes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.client import controller_reference
from localcloud.kubernetes.controllers.jobs.indexes import INDEX, index_of
from localcloud.kubernetes.resources import JOB

if TYPE_CHECKING:
    from localcloud.kubernetes.store import Object

FINALIZER = "batch.kubernetes.io/job-tracking"
_VARIABLE = "JOB_COMPLETION_INDEX"
_MAX_PREFIX = 58
"""The longest prefix of a generated name; the job's name is shortened, not the index."""


def new_pod(job: Object, index: int) -> Object:
    """Return a new pod of a job; `index` is -1 for a job without indexes."""
    template = copy.deepcopy(job["spec"]["template"])
    name = job["metadata"]["name"]
    metadata = template.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    annotations = dict(metadata.get("annotations") or {})
    end = f"-{index}-" if index >= 0 else "-"
    if index >= 0:
        labels[INDEX] = annotations[INDEX] = str(index)
        template["spec"]["hostname"] = f"{name}-{index}"
        for container in [*(template["spec"].get("initContainers") or []), *template["spec"]["containers"]]:
            _add_index(container)
    return {
        "metadata": {
            "generateName": name[: _MAX_PREFIX - len(end)] + end,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [FINALIZER],
            "ownerReferences": [controller_reference(JOB, job)],
        },
        "spec": template["spec"],
    }


def _add_index(container: dict[str, Any]) -> None:
    variables = container.setdefault("env", [])
    if all(variable["name"] != _VARIABLE for variable in variables):
        path = f"metadata.labels['{INDEX}']"
        variables.append({"name": _VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})


def phase_of(pod: Object) -> str:
    """Return the phase of a pod."""
    return str((pod.get("status") or {}).get("phase", ""))


def is_active(pod: Object) -> bool:
    """Return True for a pod that has not ended and is not being deleted."""
    return phase_of(pod) not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


def is_terminating(pod: Object) -> bool:
    """Return True for a pod that is being deleted and has not ended."""
    return phase_of(pod) not in ("Succeeded", "Failed") and "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Object) -> bool:
    """Return True for a pod that runs and is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def has_failed(pod: Object, job: Object) -> bool:
    """Return True for a pod that counts as failed: also one that is being deleted, unless only failed are replaced."""
    if phase_of(pod) == "Failed":
        return True
    if job["spec"]["podReplacementPolicy"] == "Failed":
        return False
    return is_terminating(pod)


def missing_indexes(job: Object, pods: list[Object], succeeded: set[int], count: int) -> list[int]:
    """Return the first indexes that have no pod and have not succeeded."""
    only_failed = job["spec"]["podReplacementPolicy"] == "Failed"
    used_indexes = {index_of(pod) for pod in pods if is_active(pod) or (only_failed and is_terminating(pod))}
    free = (
        index for index in range(job["spec"]["completions"]) if index not in used_indexes and index not in succeeded
    )
    return [index for index, _ in zip(free, range(count), strict=False)]
