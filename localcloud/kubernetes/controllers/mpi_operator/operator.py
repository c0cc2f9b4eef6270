"""Operator: brings the objects of an MPIJob to its desired state.

Source: https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go (syncHandler and
updateMPIJobStatus) and pkg/apis/kubeflow/validation/validation.go there. An MPIJob that is being deleted is ignored, so
its pods run on while a finalizer holds it. A worker that fails stays, and only the launcher decides how the job ends.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.client import controller_of
from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.controllers.mpi_operator import objects
from localcloud.kubernetes.controllers.mpi_operator.conditions import condition, is_finished, set_condition
from localcloud.kubernetes.events import timestamp
from localcloud.kubernetes.resources import CONFIG_MAP, JOB, MPI_JOB_RESOURCE, POD, SECRET, SERVICE
from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.events import EventRecorder
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Key, Object

_MAX_NAME = 63
_POLICIES = ("None", "Running", "All")
_MAX_MESSAGE = 1024


class MpiOperator(Controller):
    """The operator of a cluster."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        super().__init__(client)
        self._events = events

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the key of an MPIJob, or of the MPIJob that controls an object."""
        if key[0] is MPI_JOB_RESOURCE:
            return [key]
        owner = controller_of(entry)
        if owner and owner["kind"] == "Job":  # the launcher's job
            job = self.client.find(JOB, key[1], owner["name"])
            owner = controller_of(job) if job else None
        return [(MPI_JOB_RESOURCE, key[1], owner["name"])] if owner and owner["kind"] == "MPIJob" else []

    def sync(self, key: Key) -> float | None:
        """Bring an MPIJob closer to its desired state."""
        job = self.client.find(*key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return None
        _add_defaults(job)
        problems = list(_problems(job))
        if problems:
            self._events.warning(job, "ValidationError", f"Found validation errors: {', '.join(problems)}")
            return None
        status = copy.deepcopy(job.get("status") or {})
        job_text = f"MPIJob {key[1]}/{key[2]}"
        if not status.get("conditions"):
            set_condition(status, "Created", "MPIJobCreated", f"{job_text} is created.")
            self._events.normal(job, "MPIJobCreated", f"{job_text} is created.")
        if is_finished(status) and status.get("completionTime"):
            if job["spec"]["runPolicy"]["cleanPodPolicy"] != "None":
                self._clean_up(job, status)
                self._store(job, status)
            return None
        suspended = bool(job["spec"]["runPolicy"].get("suspend"))
        if not status.get("startTime") and not suspended:
            status["startTime"] = timestamp()
        launcher, workers = self._objects(job, suspended=suspended)
        if suspended:
            self._clean_up(job, status)
        self._update_status(job, status, launcher, workers)
        self._store(job, status)
        return None

    def _objects(self, job: Object, *, suspended: bool) -> tuple[Object | None, list[Object]]:
        """Create missing objects; return the launcher and the workers."""
        namespace = job["metadata"]["namespace"]
        launcher = self._owned_object(job, JOB, objects.launcher_name(job))
        workers: list[Object] = []
        if launcher is None or not _has_ended(launcher):
            self._ensure(job, SERVICE, objects.service(job))
            self._ensure_config_map(job)
            if self._owned_object(job, SECRET, f"{job['metadata']['name']}-ssh") is None:
                self.client.create(SECRET, namespace, objects.secret(job))
            workers = [] if suspended else self._workers(job)
            ready = all(_is_ready(pod) for pod in workers)
            if launcher is None and (job["spec"]["launcherCreationPolicy"] == "AtStartup" or ready):
                launcher = self._create(job, JOB, objects.launcher(job), "launcher pod created failed")
        if launcher and bool(launcher["spec"]["suspend"]) != suspended:
            launcher = self._align(job, launcher, suspended=suspended)
        return launcher, workers

    def _align(self, job: Object, launcher: Object, *, suspended: bool) -> Object | None:
        """Suspend or resume the launcher; before it resumes, it gets the present fields for the scheduler."""
        if not suspended:
            self.client.update_status(JOB, launcher, lambda changed: changed["status"].pop("startTime", None))
        template = objects.launcher_template(job)

        def change(changed: Object) -> None:
            changed["spec"]["suspend"] = suspended
            if not suspended:
                for name in ("nodeSelector", "tolerations", "schedulingGates", "affinity"):
                    changed["spec"]["template"]["spec"].pop(name, None)
                    if name in template["spec"]:
                        changed["spec"]["template"]["spec"][name] = template["spec"][name]

        return self.client.update(JOB, launcher, change)

    def _workers(self, job: Object) -> list[Object]:
        pods = []
        for index in range(objects.replicas(job)):
            pod = self._owned_object(job, POD, objects.worker_name(job, index))
            pods.append(pod or self._create(job, POD, objects.worker(job, index), "worker pod created failed"))
        return pods

    def _create(self, job: Object, resource: Resource, new: Object, failure: str) -> Object:
        try:
            return self.client.create(resource, job["metadata"]["namespace"], new)
        except ApiError as error:
            self._events.warning(job, "MPIJobFailed", f"{failure}: {error.message}")
            raise

    def _ensure(self, job: Object, resource: Resource, new: Object) -> None:
        if self._owned_object(job, resource, new["metadata"]["name"]) is None:
            self.client.create(resource, job["metadata"]["namespace"], new)

    def _ensure_config_map(self, job: Object) -> None:
        pods = [pod for pod in self.client.dependents(job, POD) if pod["status"].get("phase") == "Running"]
        new = objects.config_map(job, [pod["metadata"]["name"] for pod in pods])
        self._ensure(job, CONFIG_MAP, new)
        current = self._owned_object(job, CONFIG_MAP, new["metadata"]["name"])
        if current and current["data"] != new["data"]:
            self.client.update(CONFIG_MAP, current, lambda changed: changed.update(data=new["data"]))

    def _owned_object(self, job: Object, resource: Resource, name: str) -> Object | None:
        """Return an object of the MPIJob; None if there is none.

        Raises:
            ApiError: Another object has the name.
        """
        owned = self.client.find(resource, job["metadata"]["namespace"], name)
        if owned and (controller_of(owned) or {}).get("uid") != job["metadata"]["uid"]:
            message = f'Resource "{name}" of Kind "{resource.kind}" already exists and is not managed by MPIJob'
            self._events.warning(job, "ErrResourceExists", message)
            raise ApiError(code=409, reason="Conflict", message=message)
        return owned

    def _clean_up(self, job: Object, status: dict[str, Any]) -> None:
        """Delete the workers; with the policy Running, also when the job is suspended, ended workers stay."""
        for index in range(objects.replicas(job)):
            pod = self._owned_object(job, POD, objects.worker_name(job, index))
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                continue
            has_ended = pod["status"].get("phase") not in ("Running", "Pending")
            if not has_ended or job["spec"]["runPolicy"]["cleanPodPolicy"] != "Running":
                self.client.delete(POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
        status.setdefault("replicaStatuses", {})["Worker"] = {}

    def _update_status(
        self, job: Object, status: dict[str, Any], launcher: Object | None, workers: list[Object]
    ) -> None:
        suspended = bool(job["spec"]["runPolicy"].get("suspend"))
        job_text = f"MPIJob {job['metadata']['namespace']}/{job['metadata']['name']}"
        self._set_suspended(job, status, suspended=suspended)
        counts = status.setdefault("replicaStatuses", {})
        running_launchers = self._count_launcher(job, status, launcher, job_text) if launcher else 0
        phases = [pod["status"].get("phase") for pod in workers]
        phase_by_count = {"active": "Running", "succeeded": "Succeeded", "failed": "Failed"}
        counts["Worker"] = {name: phases.count(phase) for name, phase in phase_by_count.items() if phase in phases}
        evicted = sum(pod["status"].get("reason") == "Evicted" for pod in workers)
        if evicted:
            message = f"{evicted}/{len(workers)} workers are evicted"
            set_condition(status, "Failed", "MPIJobEvicted", message)
            self._events.warning(job, "MPIJobEvicted", message)
        if suspended:
            set_condition(status, "Running", "MPIJobSuspended", f"{job_text} is suspended.", value=False)
        elif is_finished(status):
            if condition(status, "Running") is None:
                message = f"{job_text} is finished but Running condition was never set."
                set_condition(status, "Running", "MPIJobRunning", message, value=False)
        elif running_launchers and phases.count("Running") == len(workers):
            set_condition(status, "Running", "MPIJobRunning", f"{job_text} is running.")
            self._events.normal(job, "MPIJobRunning", f"{job_text} is running")

    def _set_suspended(self, job: Object, status: dict[str, Any], *, suspended: bool) -> None:
        if suspended:
            if set_condition(status, "Suspended", "MPIJobSuspended", "MPIJob suspended"):
                self._events.normal(job, "MPIJobSuspended", "MPIJob suspended")
        elif condition(status, "Suspended"):
            has_changed = set_condition(status, "Suspended", "MPIJobResumed", "MPIJob resumed", value=False)
            if has_changed:
                self._events.normal(job, "MPIJobResumed", "MPIJob resumed")
                status["startTime"] = timestamp()

    def _count_launcher(self, job: Object, status: dict[str, Any], launcher: Object, job_text: str) -> int:
        """Count the launcher's pods, and end the MPIJob when the launcher has ended; return the running pods."""
        pods = self.client.dependents(launcher, POD)
        running_pods = len([pod for pod in pods if pod["status"].get("phase") == "Running"])
        launcher_status = launcher.get("status") or {}
        counts = {"failed": launcher_status["failed"]} if launcher_status.get("failed") else {}
        conditions = {
            condition["type"]: condition
            for condition in launcher_status.get("conditions") or []
            if condition["status"] == "True"
        }
        if "Complete" in conditions:
            counts["succeeded"] = 1
            message = f"{job_text} successfully completed."
            status.setdefault("completionTime", launcher_status["completionTime"])
            if set_condition(status, "Succeeded", "MPIJobSucceeded", message):
                self._events.normal(job, "MPIJobSucceeded", message)
        elif "Failed" in conditions:
            self._fail(job, status, conditions["Failed"], pods)
        elif running_pods:
            counts["active"] = running_pods
        status["replicaStatuses"]["Launcher"] = counts
        return running_pods

    def _fail(self, job: Object, status: dict[str, Any], ended: dict[str, Any], pods: list[Object]) -> None:
        reason, message = ended["reason"], ended["message"]
        failed_pods = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
        if reason == "BackoffLimitExceeded" and failed_pods:
            last_status = max(failed_pods, key=lambda pod: pod["metadata"]["creationTimestamp"])["status"]
            reason = f"{reason}/{last_status.get('reason', '')}"
            message = f"{message}: {last_status.get('message', '')}"[:_MAX_MESSAGE]
        status.setdefault("completionTime", timestamp())
        if set_condition(status, "Failed", reason, message):
            self._events.warning(job, reason, message)

    def _store(self, job: Object, status: dict[str, Any]) -> None:
        if status != (job.get("status") or {}):
            self.client.update_status(MPI_JOB_RESOURCE, job, lambda changed: changed.update(status=status))


def _add_defaults(job: Object) -> None:
    """Add the defaults of the operator to its copy (pkg/apis/kubeflow/v2beta1/default.go)."""
    policy = job["spec"].setdefault("runPolicy", {})
    policy.setdefault("cleanPodPolicy", "None")
    for role, (count, restart) in {"Launcher": (1, "OnFailure"), "Worker": (0, "Never")}.items():
        if spec := job["spec"]["mpiReplicaSpecs"].get(role):
            spec.setdefault("replicas", count)
            spec["restartPolicy"] = spec.get("restartPolicy") or restart


def _problems(job: Object) -> Iterator[str]:
    specs, name = job["spec"]["mpiReplicaSpecs"], job["metadata"]["name"]
    longest = f"{name}-worker-{max(0, objects.replicas(job) - 1)}"
    if len(longest) > _MAX_NAME or "." in name:
        yield f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label "{longest}"'
    if job["spec"]["runPolicy"]["cleanPodPolicy"] not in _POLICIES:
        yield "spec.runPolicy.cleanPodPolicy: Unsupported value"
    if not specs.get("Launcher"):
        yield "spec.mpiReplicaSpecs[Launcher]: Required value: must have Launcher replica spec"
    elif specs["Launcher"]["replicas"] != 1:
        yield "spec.mpiReplicaSpecs[Launcher].replicas: Invalid value: must be 1"
    for role, spec in specs.items():
        if role == "Worker" and spec and spec["replicas"] <= 0:
            yield "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: must be greater than or equal to 1"
        if spec and spec["restartPolicy"] not in ("Never", "OnFailure"):
            yield f"spec.mpiReplicaSpecs[{role}].restartPolicy: Unsupported value"
        if spec and not ((spec.get("template") or {}).get("spec") or {}).get("containers"):
            yield f"spec.mpiReplicaSpecs[{role}].template.spec.containers: Required value"


def _has_ended(launcher: Object) -> bool:
    conditions = (launcher.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True" for condition in conditions
    )


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
