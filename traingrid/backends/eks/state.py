"""State: a training job's state from its object and its pods, in SageMaker's terms."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from traingrid.backends.eks import labels
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.pod_template import PREPARE, RESULTS, TRAIN
from traingrid.backends.eks.pods import Pod
from traingrid.backends.eks.running import overdue_reason, phase_of
from traingrid.job.failures import (
    CAPACITY_WAIT_EXCEEDED,
    EARLY_STOPS,
    FAILURES,
    LOST_NODE,
    MAX_RUNTIME,
    MEMORY,
    failure_of_program,
)
from traingrid.job.observed import UPLOADING, TrainingJobDescription
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.kubernetes.client import MPI_JOB
from traingrid.strict_json import json_object

_ENDED_BY_POLICY = "PodFailurePolicy"
_PREFIXES = ("ClientError:", "InternalServerError:")
_NOT_STARTED = ("StartError", "ContainerCannotRun")
_KILLED = 137
"""The exit code of SIGKILL."""


@dataclass(frozen=True, kw_only=True)
class _State:
    """The part of `TrainingJobDescription` that this module decides."""

    state: JobState
    phase: str
    reason: str = ""
    failure: str = ""
    artifact: str = ""


def describe_cluster_job(cluster_job: ClusterJob, now: float | None = None) -> TrainingJobDescription:
    """Return the description of a training job in a cluster.

    Args:
        now: The present time, in seconds since 1970; None for this machine's time.
    """
    now = time.time() if now is None else now
    job_state, overdue = _state_of(cluster_job, now), overdue_reason(cluster_job, now)
    return TrainingJobDescription(
        state=job_state.state,
        phase=job_state.phase,
        reason=overdue if overdue and job_state.state == JobState.IN_PROGRESS else job_state.reason,
        failure=job_state.failure,
        artifact=job_state.artifact,
        arn=f"{cluster_job.cluster_arn}/{cluster_job.namespace}/{cluster_job.kind.plural}/{cluster_job.name}/{cluster_job.uid}",
        created_at=cluster_job.created_at,
        started_at=cluster_job.started_at,
        training_seconds=_training_seconds(cluster_job),
        billable_seconds=_billable_seconds(cluster_job),
        fingerprint=cluster_job.request.fingerprint,
    )


def end_of_worker(cluster_job: ClusterJob, failed: Sequence[Pod]) -> TrainingJobDescription | None:
    """Return the end of an MPIJob of which these workers have failed; None if they do not show the reason."""
    for pod in sorted(failed, key=lambda pod: (pod.failed_at, pod.host)):
        if failed_state := _failed_pod(cluster_job, pod):
            return TrainingJobDescription(
                state=failed_state.state,
                phase=failed_state.phase,
                reason=failed_state.reason,
                failure=failed_state.failure,
            )
    return None


def end_to_note(cluster_job: ClusterJob) -> str:
    """Return the text of the annotation `ENDED` of a training job; empty if it has not ended.

    The first process that sees the end decides it. After that, the pods may be removed. If the training job was
    deleted, the Job controller may also count one that ended on SIGTERM as succeeded, or release one that ended before
    the deletion without counting it. So a later reader could come to another end.
    """
    job_state = _state_of(cluster_job, time.time())
    return json.dumps(asdict(job_state)) if job_state.state in FINAL_STATES else ""


def failure_to_note(cluster_job: ClusterJob, pods: Sequence[Pod]) -> str:
    """Return the text of the annotation `ENDED` for pods that are to be deleted; empty if no training of them failed.

    The pods will be gone when their end is read.
    """
    failed_pods = sorted((pod for pod in pods if pod.exit_code), key=lambda pod: (pod.failed_at, pod.host))
    failed_state = _failed_pod(cluster_job, failed_pods[0]) if failed_pods else None
    return json.dumps(asdict(failed_state)) if failed_state else ""


def has_trained_in_time(cluster_job: ClusterJob) -> bool:
    """Return True if all hosts have trained in time, but one is or may be counted as failed for another reason.

    It uploaded late, or a container of another program runs on, whose exit code is not that of the training. Of a host
    whose pod is gone, nothing is known.
    """
    pods = _deciding_pods(cluster_job)
    has_all = len(pods) >= (1 if cluster_job.kind is MPI_JOB else cluster_job.hosts) and all(map(_has_trained, pods))
    return has_all and any(pod.uploaded_late or pod.left_running or pod.failed_by_others for pod in pods)


def tags_in(cluster_job: ClusterJob) -> dict[str, str]:
    """Return the tags of a training job, from the request in its pod template; none if it has no request.

    The annotations of an object can change, but the template of a Job cannot, except while it is suspended
    (https://kubernetes.io/docs/concepts/workloads/controllers/job/#mutable-scheduling-directives).
    """
    return cluster_job.request.tags


def _state_of(cluster_job: ClusterJob, now: float) -> _State:
    return _noted_end(cluster_job) or _decide_state(cluster_job, now)


def _noted_end(cluster_job: ClusterJob) -> _State | None:
    """Return the end in the annotation `ENDED`; None without a valid one, because other programs can write it, too.

    It must be one that the object, and the pods that are left, do not refute.
    """
    if cluster_job.pods_left or not cluster_job.is_over:
        return None
    try:
        note = json_object(cluster_job.annotations.get(labels.ENDED, ""))
        state = JobState(note.pop("state"))
        end = _State(state=state, **{name: str(text) for name, text in note.items()})
    except (ValueError, KeyError, TypeError):
        return None
    is_end = state in FINAL_STATES and end.failure in ("", *FAILURES)
    return end if is_end and not _is_refuted(cluster_job, end) else None


def _is_refuted(cluster_job: ClusterJob, end: _State) -> bool:
    """Return True if a noted end has the model of another training job, or is a success of pods that failed."""
    artifacts = (_own_artifact(cluster_job), _artifact(cluster_job), "")
    if end.artifact not in artifacts:
        return True
    return end.state == JobState.COMPLETED and _has_failed_by_itself(cluster_job)


def _has_failed_by_itself(cluster_job: ClusterJob) -> bool:
    """Return True if a pod shows that its training failed, also against its annotations.

    The kubelet may later report 137 for a container that it has lost, even if it had ended without an error
    (https://github.com/kubernetes/kubernetes/issues/104107). Such an end is a disruption.
    """
    return any(pod.exit_code and not (pod.was_interrupted or pod.disruption) for pod in _deciding_pods(cluster_job))


def _decide_state(cluster_job: ClusterJob, now: float) -> _State:
    """Return the state by the conditions of the object; it ends only when its pods are gone."""
    if cluster_job.completion_condition:
        if cluster_job.pods_left:
            return _State(state=JobState.IN_PROGRESS, phase=UPLOADING)
        return _completion_state(cluster_job)
    if cluster_job.deleted_at is not None and not cluster_job.failure_condition:
        if cluster_job.pods_left:
            return _State(state=JobState.STOPPING, phase="Stopping")
        return _end_by_pods(cluster_job) or _stop_state(cluster_job)
    if cluster_job.failure_condition:
        is_uploading = bool(cluster_job.pods_left)
        return _State(state=JobState.IN_PROGRESS, phase=UPLOADING) if is_uploading else _failure_state(cluster_job)
    phase, reason = phase_of(cluster_job, now)
    return _State(state=JobState.IN_PROGRESS, phase=phase, reason=reason)


def _completion_state(cluster_job: ClusterJob) -> _State:
    for pod in cluster_job.pods:
        if pod.results.error:
            return _upload_failed(pod)
    disruption = cluster_job.annotations.get(labels.DISRUPTED) or cluster_job.disruption
    if disruption:
        return _failure(
            f"{disruption.rstrip('.')}. Its program then ended without an error, perhaps too early.", LOST_NODE.name
        )
    artifact = _artifact(cluster_job)
    if not cluster_job.pods:  # they are gone with their nodes; the path of the model is certain
        artifact = _own_artifact(cluster_job)
    return _State(state=JobState.COMPLETED, phase="Completed", artifact=artifact)


def _overtime_state(cluster_job: ClusterJob) -> _State:
    """Return the end of a training job that exceeded its `max_runtime`, with the model that its program had written.

    SageMaker keeps it, too: "Algorithms can use this 120-second window to save the model artifacts, so the results of
    training are not lost" (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html).
    """
    return _State(state=JobState.STOPPED, phase="MaxRuntimeExceeded", artifact=_artifact(cluster_job))


def _own_artifact(cluster_job: ClusterJob) -> str:
    """Return the place of the model, as the request in the pod template has it; empty if it has none."""
    artifact = f"{cluster_job.request.output.rstrip('/')}/{cluster_job.name}/output/model.tar.gz"
    return artifact if artifact.startswith("s3://") else ""


def _artifact(cluster_job: ClusterJob) -> str:
    """Return the model that the pods have uploaded; empty if there is none, or the pods are gone."""
    return next((pod.results.artifact for pod in cluster_job.pods if pod.results.artifact), "")


def _end_by_pods(cluster_job: ClusterJob) -> _State | None:
    """Return the end of a deleted training job whose pods ended by themselves; None if the deletion ended one.

    The Job controller releases the pods of a Job that is being deleted, and does not count how they end any more.
    """
    stopped_for = cluster_job.annotations.get(labels.STOPPED_FOR)
    deleted_at = cluster_job.deleted_at or 0.0

    def is_own(pod: Pod) -> bool:
        end = pod.training[1] if pod.training else pod.ended_at
        return not pod.was_interrupted and end is not None and (end < deleted_at or not stopped_for)

    own_pods = [pod for pod in cluster_job.pods if is_own(pod)]
    failed_pods = [pod for pod in own_pods if pod.has_failed and not pod.uploaded_late]
    for pod in sorted(failed_pods, key=lambda pod: (pod.failed_at, pod.host)):
        if failed_state := _failed_pod(cluster_job, pod):
            return failed_state
    return _completion_state(cluster_job) if len(own_pods) >= cluster_job.hosts and not failed_pods else None


def _stop_state(cluster_job: ClusterJob) -> _State:
    """Return the end of a deleted training job by the reason that is noted at its object."""
    stopped_for = cluster_job.annotations.get(labels.STOPPED_FOR, "")
    message = cluster_job.annotations.get(labels.STOPPED_BECAUSE, "")
    if stopped_for == "capacity":
        reason = "It was stopped after its capacity_wait." + (f" Until then: {message}" if message else "")
        return _State(state=JobState.STOPPED, phase=CAPACITY_WAIT_EXCEEDED, reason=reason)
    if stopped_for == MAX_RUNTIME.name:
        return _overtime_state(cluster_job)
    if noted_failure := _noted_failure(cluster_job):
        return _failure(message, noted_failure)
    reason = ""
    if not stopped_for:
        reason = f"The {cluster_job.kind.kind} {cluster_job.name} was deleted in the cluster, but not by traingrid."
    return _State(state=JobState.STOPPED, phase="Stopped", reason=reason)


def _noted_failure(cluster_job: ClusterJob) -> str:
    """Return the failure class with which traingrid has ended a training job; empty if a child or person stopped it."""
    stopped_for = cluster_job.annotations.get(labels.STOPPED_FOR, "")
    return stopped_for if stopped_for in FAILURES and stopped_for not in EARLY_STOPS else ""


def _failure_state(cluster_job: ClusterJob) -> _State:
    """Return the failure of the host that failed first, apart from those that were stopped because of it."""
    # Of a worker, whose pod may be gone. The deletion follows the note at once, so one without it is of another writer.
    if cluster_job.deleted_at is not None and _noted_failure(cluster_job):
        return _stop_state(cluster_job)
    is_noted = labels.TRAINED in cluster_job.annotations and not _has_failed_by_itself(cluster_job)
    if is_noted or has_trained_in_time(cluster_job):
        return _completion_state(cluster_job)
    is_late = any(pod.uploaded_late for pod in _deciding_pods(cluster_job))

    def is_failed(pod: Pod) -> bool:
        # The controllers delete the other pods as soon as they count one that uploaded late as failed.
        was_deleted_for_it = is_late and pod.is_deleting and pod.was_interrupted and not pod.disruption
        return (pod.has_failed or bool(pod.results.error)) and not was_deleted_for_it

    for pod in sorted(filter(is_failed, cluster_job.pods), key=lambda pod: (pod.is_deleting, pod.failed_at, pod.host)):
        if failed_state := _failed_pod(cluster_job, pod):
            return failed_state
    condition = cluster_job.failure_condition
    if is_late or condition.get("reason") == "DeadlineExceeded":
        return _overtime_state(cluster_job)
    message = str(condition.get("message") or condition.get("reason") or "")
    if condition.get("reason") == _ENDED_BY_POLICY:
        return _failure(f"The cluster ended a pod: {message}", LOST_NODE.name)
    return _failure(f"A pod was deleted or lost with its node before its end was known: {message}", LOST_NODE.name)


def _deciding_pods(cluster_job: ClusterJob) -> list[Pod]:
    """Return the pods by which the controller decides how a training job ends: of an MPIJob, the launcher only.

    A Job counts a pod that uploaded late as failed, because its phase is Failed (getNewFinishedPods in
    pkg/controller/job/job_controller.go of Kubernetes), and an MPIJob fails with the Job of its launcher
    (updateMPIJobStatus in pkg/controller/mpi_job_controller.go of https://github.com/kubeflow/mpi-operator).
    """
    return [pod for pod in cluster_job.pods if not (cluster_job.kind is MPI_JOB and pod.host > 0)]


def _has_trained(pod: Pod) -> bool:
    """Return True if the training of a pod ended without an error, in time and not because of a disruption."""
    return pod.exit_code == 0 and not pod.was_interrupted and not pod.exceeded_runtime


def _failed_pod(cluster_job: ClusterJob, pod: Pod) -> _State | None:
    """Return the end of a training job whose first failed pod this is; None if the pod does not show the reason."""
    host = f"host {pod.host + 1}"
    if pod.exceeded_runtime:
        return _overtime_state(cluster_job)
    if pod.exceeded_storage:
        return _failure(_disk_full(cluster_job, pod))
    if pod.disruption and not pod.uploaded_late:
        more = f" {MEMORY.next_step}" if pod.lacked_memory else ""
        return _failure(
            f"The pod {pod.name} of {host} was ended by the cluster: {pod.disruption}{more}", LOST_NODE.name
        )
    if pod.preparation_failure:
        return _step_failed(f"The preparation of {host} failed", pod.preparation_failure, pod.out_of_memory(PREPARE))
    if pod.exit_code:
        # Without a condition, `kubectl delete pod` or the deletion of its namespace has ended it.
        deletion_text = f"The pod {pod.name} of {host} was deleted while it trained." if pod.was_interrupted else ""
        return _failure(deletion_text, LOST_NODE.name) if deletion_text else _exit(pod)
    return _upload_failed(pod) if pod.results.error else None


def _disk_full(cluster_job: ClusterJob, pod: Pod) -> str:
    """Return the eviction of a pod that used too much of the disk in SageMaker's words (`traingrid.pod.failure`)."""
    advice = "Set a higher volume_gb"
    if "EmptyDir" not in pod.exceeded_storage:  # no limit of traingrid, but of a LimitRange
        command = f"`kubectl describe limitrange -n {cluster_job.namespace}` shows it"
        advice = f"Set a higher limit of ephemeral-storage in the LimitRange of the namespace; {command}"
    return f"ClientError: Insufficient disk space on host {pod.host + 1}: {pod.exceeded_storage} {advice}."


def _exit(pod: Pod) -> _State:
    """Return the failed training in SageMaker's words (`traingrid.job.failures.failure_of_end`)."""
    if pod.exit_reason in _NOT_STARTED:
        return _failure(f"ClientError: CannotStartContainerError: {pod.exit_message or pod.exit_reason}")
    text = pod.results.failure.strip()
    if killed := pod.out_of_memory(TRAIN):
        return _too_little_memory(f"{killed}: {text}" if text else killed)
    reason = f"AlgorithmError: {text}, exit code: {pod.exit_code}".replace(": , ", ": ")
    evidence = text if pod.exit_code == _KILLED else reason  # others than the kernel send SIGKILL, too
    return _failure(reason, failure_of_program(evidence).name)


def _upload_failed(pod: Pod) -> _State:
    if pod.has_unknown_upload:
        text = f"The pod {pod.name} of host {pod.host + 1} was lost during its upload: {pod.results.error}"
        return _failure(text, LOST_NODE.name)
    return _step_failed("The artifact upload failed", pod.results.error, pod.out_of_memory(RESULTS))


def _step_failed(step: str, message: str, killed: str) -> _State:
    """Return the end of a training job of which a program of `traingrid.pod` failed.

    Args:
        step: The failure, as a sentence without a full stop.
        message: The program's message, which has SageMaker's words unless its container was killed.
        killed: How its container was killed for lack of memory; empty if it was not.
    """
    if killed:
        return _too_little_memory(f"{step}: {killed}")
    return _failure(message if message.startswith(_PREFIXES) else f"InternalServerError: {step}: {message}")


def _too_little_memory(reason: str) -> _State:
    return _failure(f"ClientError: {reason.rstrip('.')}. {MEMORY.next_step}", MEMORY.name)


def _failure(reason: str, failure: str = "") -> _State:
    return _State(state=JobState.FAILED, phase="Failed", reason=reason, failure=failure)


def _training_seconds(cluster_job: ClusterJob) -> int:
    if not cluster_job.is_over:
        return 0
    times = [pod.training for pod in cluster_job.pods if pod.training]
    if not times:  # the pods are gone
        return _billable_seconds(cluster_job)
    return max(0, round(max(end for _, end in times) - min(start for start, _ in times)))


def _billable_seconds(cluster_job: ClusterJob) -> int:
    start, end = cluster_job.started_at, cluster_job.ended_at
    return max(0, round(end - start)) if start is not None and end is not None else 0
