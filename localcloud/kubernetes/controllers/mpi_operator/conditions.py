"""Conditions: the conditions of an MPIJob.

Source: https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller_status.go.
"""

from __future__ import annotations

from typing import Any

from localcloud.kubernetes.events import timestamp

Status = dict[str, Any]


def condition(status: Status, kind: str) -> dict[str, Any] | None:
    """Return a condition."""
    return next((entry for entry in status.get("conditions") or [] if entry["type"] == kind), None)


def is_true(status: Status, kind: str) -> bool:
    """Return True if a condition is true."""
    entry = condition(status, kind)
    return entry is not None and entry["status"] == "True"


def is_finished(status: Status) -> bool:
    """Return True if the MPIJob has succeeded or failed."""
    return is_true(status, "Succeeded") or is_true(status, "Failed")


def set_condition(status: Status, kind: str, reason: str, message: str, *, value: bool = True) -> bool:
    """Set a condition; return False if its status and reason are the same already."""
    now = timestamp()
    text = "True" if value else "False"
    current = condition(status, kind)
    if current and (current["status"], current["reason"]) == (text, reason):
        return False
    transition_time = current["lastTransitionTime"] if current and current["status"] == text else now
    new = {"type": kind, "status": text, "lastUpdateTime": now, "lastTransitionTime": transition_time}
    other_conditions = [
        other_condition for other_condition in status.get("conditions") or [] if other_condition["type"] != kind
    ]
    if kind in ("Failed", "Succeeded"):
        for other_condition in other_conditions:
            if other_condition["type"] in ("Running", "Failed"):
                other_condition["status"] = "False"
    status["conditions"] = [*other_conditions, {**new, "reason": reason, "message": message}]
    return True
