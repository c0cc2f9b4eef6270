"""Job state: the status of a job while the controller works on it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.controllers.jobs import indexes
from localcloud.kubernetes.controllers.jobs.pods import is_ready
from localcloud.kubernetes.events import seconds_since, timestamp

if TYPE_CHECKING:
    from localcloud.kubernetes.store import Object

Condition = dict[str, str]
_COMPLETED: Condition = {
    "type": "SuccessCriteriaMet",
    "status": "True",
    "reason": "CompletionsReached",
    "message": "Reached expected number of succeeded pods",
}
_EXCEEDED: Condition = {
    "type": "FailureTarget",
    "status": "True",
    "reason": "BackoffLimitExceeded",
    "message": "Job has reached the specified backoff limit",
}
_TOO_LONG: Condition = {
    "type": "FailureTarget",
    "status": "True",
    "reason": "DeadlineExceeded",
    "message": "Job was active longer than specified deadline",
}


class JobState:
    """The status of one job.

    Attributes:
        status: The status, which the controller changes.
        stored: The status as it is stored.
        last: The condition Complete or Failed, if it was added now.
    """

    def __init__(self, job: Object) -> None:
        self._spec = job["spec"]
        self.stored = job.get("status") or {}
        self.status: dict[str, Any] = copy.deepcopy(self.stored)
        self.last: Condition | None = None
        self._uncounted_pods: dict[str, list[str]] = dict(self.status.get("uncountedTerminatedPods") or {})

    @property
    def is_indexed(self) -> bool:
        """True for an Indexed Job."""
        return bool(self._spec["completionMode"] == "Indexed")

    @property
    def is_finished(self) -> bool:
        """True if the job has ended, and none of its pods is left to count."""
        return any(self._has_condition(kind) for kind in ("Complete", "Failed")) and not self.has_uncounted

    @property
    def is_suspended(self) -> bool:
        """True if the status reports that the job is suspended."""
        return self._has_condition("Suspended")

    @property
    def target(self) -> Condition | None:
        """The condition that decides how the job ends."""
        conditions = (self._condition(kind) for kind in ("FailureTarget", "SuccessCriteriaMet"))
        return next((condition for condition in conditions if condition and condition["status"] == "True"), None)

    @property
    def has_failed(self) -> bool:
        """True if the job fails."""
        return self._has_condition("FailureTarget")

    @property
    def has_uncounted(self) -> bool:
        """True if pods have ended that are not in the counts."""
        return any(self._uncounted_pods.values())

    @property
    def failures(self) -> int:
        """The number of failed pods."""
        return int(self.status.get("failed", 0)) + len(self._uncounted_pods.get("failed", []))

    @property
    def succeeded_indexes(self) -> set[int]:
        """The indexes that have succeeded."""
        return indexes.parsed(self.status.get("completedIndexes", ""))

    @property
    def successes(self) -> int:
        """The number of pods or indexes that have succeeded."""
        if self.is_indexed:
            return len(self.succeeded_indexes)
        return int(self.status.get("succeeded", 0)) + len(self._uncounted_pods.get("succeeded", []))

    def find_target(self, policy_failure: str) -> Condition | None:
        """Return the condition that the job has reached now.

        Args:
            policy_failure: The message of a pod that fails the job by its podFailurePolicy.
        """
        remaining = self.rest_of_deadline()
        if policy_failure:
            reason = {"reason": "PodFailurePolicy", "message": policy_failure}
            return {"type": "FailureTarget", "status": "True", **reason}
        if self.failures > self._spec["backoffLimit"]:
            return dict(_EXCEEDED)
        if remaining is not None and remaining <= 0:
            return dict(_TOO_LONG)
        for number, rule in enumerate((self._spec.get("successPolicy") or {}).get("rules") or []):
            if self._matches(rule):
                message = f"Matched rules at index {number}"
                return {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": message}
        return dict(_COMPLETED) if self.is_complete() else None

    def is_complete(self) -> bool:
        """Return True if enough pods have succeeded."""
        completions = self._spec.get("completions")
        if completions is None:
            return self.successes > 0 and not self.status.get("active")
        return self.successes >= int(completions)

    def wanted_pods(self, active: int) -> int:
        """Return the number of pods that must be active."""
        completions = self._spec.get("completions")
        parallelism = int(self._spec["parallelism"])
        if completions is None:
            return active if self.successes else parallelism
        return max(0, min(parallelism, int(completions) - self.successes))

    def rest_of_deadline(self) -> float | None:
        """Return the seconds until the job's deadline."""
        seconds, started = self._spec.get("activeDeadlineSeconds"), self.status.get("startTime")
        if seconds is None or not started or self._spec["suspend"] or self.target:
            return None
        return float(seconds) - seconds_since(started)

    def add_succeeded(self, pod: Object) -> None:
        """Record that a pod has succeeded."""
        if not self.is_indexed:
            self._add_uncounted("succeeded", pod)
            return
        index = indexes.index_of(pod)
        if 0 <= index < self._spec["completions"]:
            self.status["completedIndexes"] = indexes.shown({*self.succeeded_indexes, index})

    def add_failed(self, pod: Object) -> None:
        """Record that a pod has failed."""
        self._add_uncounted("failed", pod)

    def count(self) -> None:
        """Move the recorded pods to the counts, once their finalizers are removed."""
        for kind in ("succeeded", "failed"):
            if uids := self._uncounted_pods.pop(kind, []):
                self.status[kind] = int(self.status.get(kind, 0)) + len(uids)
        if self.is_indexed and self.succeeded_indexes:
            self.status["succeeded"] = len(self.succeeded_indexes)
        self.status["uncountedTerminatedPods"] = {}

    def set_counts(self, active: list[Object], terminating: list[Object]) -> None:
        """Set the numbers of pods that have not ended."""
        self.status["ready"] = sum(is_ready(pod) for pod in active)
        self.status["terminating"] = len(terminating)
        self.status.pop("active", None)
        if active:
            self.status["active"] = len(active)
        self.status.setdefault("uncountedTerminatedPods", {})

    def finish(self) -> None:
        """Add the last condition if the end is decided and all pods have ended."""
        if self.is_finished:
            return
        target = self.target
        if target is None or self.status.get("active") or self.status["terminating"] or self.has_uncounted:
            return
        kind = "Failed" if target["type"] == "FailureTarget" else "Complete"
        self.last = {"type": kind, "status": "True", "reason": target["reason"], "message": target["message"]}
        self.set(dict(self.last))
        if kind == "Complete":
            self.status["completionTime"] = timestamp()

    def set(self, condition: Condition) -> None:
        """Add or replace a condition."""
        now = timestamp()
        with_times = {**condition, "lastProbeTime": now, "lastTransitionTime": now}
        conditions = self.status.setdefault("conditions", [])
        current = self._condition(condition["type"])
        if current is None:
            conditions.append(with_times)
        else:
            conditions[conditions.index(current)] = with_times

    def _matches(self, rule: dict[str, Any]) -> bool:
        selected, succeeded_indexes = rule.get("succeededIndexes"), self.succeeded_indexes
        required = indexes.parsed(str(selected)) if selected else set[int]()
        matching_indexes = succeeded_indexes & required if selected else succeeded_indexes
        count = rule.get("succeededCount")
        return (
            len(matching_indexes) >= int(count)
            if count is not None
            else bool(selected) and matching_indexes == required
        )

    def _add_uncounted(self, end: str, pod: Object) -> None:
        uids = self._uncounted_pods.setdefault(end, [])
        if pod["metadata"]["uid"] not in uids:
            uids.append(pod["metadata"]["uid"])
        self.status["uncountedTerminatedPods"] = copy.deepcopy(self._uncounted_pods)

    def _has_condition(self, kind: str) -> bool:
        condition = self._condition(kind)
        return condition is not None and condition["status"] == "True"

    def _condition(self, kind: str) -> dict[str, Any] | None:
        return next((condition for condition in self.status.get("conditions") or [] if condition["type"] == kind), None)
