"""Worker failure: the end of an MPIJob that a worker has decided, although its launcher waits or runs.

The operator does not end an MPIJob whose worker has failed: it replaces a worker only if its pod is gone
(getOrCreateWorker), and only counts a failed one (updateMPIJobStatus). If the kubelet has evicted a worker, the MPIJob
fails, but without a completion time, so the operator does not end the other pods (pkg/controller/mpi_job_controller.go
of https://github.com/kubeflow/mpi-operator). The launcher's `prepare` may then wait for a name that never resolves
(`traingrid.pod.peers`), until its `max_runtime` is over.

Once the launcher trains, it notices the loss of a worker itself. The controller of an Indexed Job ends the other hosts.
"""

from dataclasses import dataclass

from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.state import end_of_worker
from traingrid.job.failures import LOST_NODE, failure_of_end
from traingrid.kubernetes.client import MPI_JOB


@dataclass(frozen=True, kw_only=True)
class WorkerFailure:
    """The reason to stop an MPIJob.

    Attributes:
        reason: The reason, as a sentence.
    """

    failure: str
    reason: str


def may_hang(cluster_job: ClusterJob) -> bool:
    """Return True if `worker_failure` may return a failure, by the object only; its pods need not be known."""
    workers = (cluster_job.status.get("replicaStatuses") or {}).get("Worker") or {}
    runs = (
        cluster_job.kind is MPI_JOB
        and cluster_job.deleted_at is None
        and not cluster_job.is_suspended
        and not cluster_job.completion_condition
    )
    return runs and bool(workers.get("failed") or _failed_without_end(cluster_job))


def worker_failure(cluster_job: ClusterJob) -> WorkerFailure | None:
    """Return the failure of a worker that decides the end of an MPIJob; None if the operator or the launcher does.

    Args:
        cluster_job: The training job, with all of its pods.
    """
    if not may_hang(cluster_job) or not cluster_job.pods_left:
        return None
    launcher = [pod for pod in cluster_job.pods if pod.host == 0]
    if any(pod.is_training or pod.has_ended for pod in launcher) and not _failed_without_end(cluster_job):
        return None
    # A pod that is being deleted is replaced by the operator.
    failed_pods = [pod for pod in cluster_job.pods if pod.host > 0 and pod.has_failed and not pod.is_deleting]
    if training_job := end_of_worker(cluster_job, failed_pods):
        failure = failure_of_end(training_job)
        return WorkerFailure(failure=failure.name if failure else LOST_NODE.name, reason=training_job.reason)
    message = str(cluster_job.failure_condition.get("message") or "")
    return WorkerFailure(failure=LOST_NODE.name, reason=f"The cluster ended a pod: {message}") if message else None


def _failed_without_end(cluster_job: ClusterJob) -> bool:
    return bool(cluster_job.failure_condition) and not cluster_job.status.get("completionTime")
