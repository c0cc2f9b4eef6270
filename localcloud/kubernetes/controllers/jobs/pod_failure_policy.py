"""Pod failure policy: the effect of a failed pod on its job, according to the job's rules.

Source: pkg/controller/job/pod_failure_policy.go of Kubernetes (matchPodFailurePolicy). The first rule that matches a
failed pod decides; a rule with the action FailIndex is skipped, because jobs have no `backoffLimitPerIndex` here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.kubernetes.store import Object

_ACTIONS = ("FailJob", "Ignore", "Count")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The effect of a failed pod.

    Attributes:
        failure: The message of the failure of the whole job; empty if the pod does not cause it.
        counts: True if the pod counts against `backoffLimit`.
    """

    failure: str = ""
    counts: bool = True


def verdict(job: Object, pod: Object) -> Verdict:
    """Return the effect of a failed pod on its job."""
    for index, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or []):
        match = _match(rule, pod) if rule["action"] in _ACTIONS else ""
        if match:
            failure = f"{match} matching FailJob rule at index {index}" if rule["action"] == "FailJob" else ""
            return Verdict(failure=failure, counts=rule["action"] != "Ignore")
    return Verdict()


def _match(rule: dict[str, Any], pod: Object) -> str:
    """Return the fact about a pod that a rule matches; empty if it matches none."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    status = pod.get("status") or {}
    if required := rule.get("onExitCodes"):
        containers = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
        ended = next(
            (container_status for container_status in containers if _has_exit_code(container_status, required)), None
        )
        if ended is None:
            return ""
        return f"Container {ended['name']} for pod {name} failed with exit code {_exit_code(ended)}"
    patterns = [(pattern["type"], pattern.get("status", "True")) for pattern in rule.get("onPodConditions") or []]
    kinds = [
        condition["type"]
        for condition in status.get("conditions") or []
        if (condition["type"], condition["status"]) in patterns
    ]
    return f"Pod {name} has condition {kinds[0]}" if kinds else ""


def _has_exit_code(container: dict[str, Any], required: dict[str, Any]) -> bool:
    code = _exit_code(container)
    if not code or required.get("containerName") not in (None, container["name"]):
        return False
    return (code in required["values"]) is (required["operator"] == "In")


def _exit_code(container: dict[str, Any]) -> int:
    """Return the exit code of a container that has ended; 0 for others."""
    return int((container["state"].get("terminated") or {}).get("exitCode", 0))
