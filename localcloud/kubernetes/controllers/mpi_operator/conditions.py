"""Conditions: the conditions of an MPIJob.

Source: https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller_status.go.
"""

from __future__ import annotations

from typing import Any

from localcloud.kubernetes.events import timestamp

Status = dict[str, Any]


def condition(status: Status, kind: str) -> dict[str, Any] | None:
    """Return a condition."""
    return next((one for one in status.get("conditions") or [] if one["type"] == kind), None)


def holds(status: Status, kind: str) -> bool:
    """Return True if a condition is true."""
    found = condition(status, kind)
    return found is not None and found["status"] == "True"


def is_finished(status: Status) -> bool:
    """Return True if the MPIJob has succeeded or failed."""
    return holds(status, "Succeeded") or holds(status, "Failed")


def set_condition(status: Status, kind: str, reason: str, message: str, *, value: bool = True) -> bool:
    """Set a condition; return False if its status and reason are the same already."""
    now, text = timestamp(), "True" if value else "False"
    present = condition(status, kind)
    if present and (present["status"], present["reason"]) == (text, reason):
        return False
    at = present["lastTransitionTime"] if present and present["status"] == text else now
    made = {"type": kind, "status": text, "lastUpdateTime": now, "lastTransitionTime": at}
    kept = [one for one in status.get("conditions") or [] if one["type"] != kind]
    if kind in ("Failed", "Succeeded"):
        for one in kept:
            if one["type"] in ("Running", "Failed"):
                one["status"] = "False"
    status["conditions"] = [*kept, {**made, "reason": reason, "message": message}]
    return True
