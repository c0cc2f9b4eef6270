"""Steps of tests with a cluster without controllers: those of a backend, of controllers and of kubelets."""

from typing import Any

from localcloud.kubernetes import resources as kinds
from tests.integration.localcloud.kubernetes.running_cluster import PODS, Cluster
from tests.support.eks_jobs import NAME, at, eks_job
from traingrid.backends.eks.backend import Eks
from traingrid.job.job import Job
from traingrid.job.ownership import tags_of
from traingrid.kubernetes.client import POD, Client
from traingrid.kubernetes.errors import ApiError

REGION = "eu-west-1"


def tags(eks: Eks, job: Job) -> dict[str, str]:
    return tags_of("traingrid", "0123abcd", 0, eks.fingerprint(NAME, job))


def start(eks: Eks, job: Job | None = None) -> Any:
    wanted = job or eks_job()
    return eks.start(NAME, wanted, tags(eks, wanted))


def finish(cluster: Cluster, kind: str, when: str = at(60)) -> None:
    """Set the condition of an ended Job."""
    made = cluster.store.get(kinds.JOB, "default", NAME)
    made["status"] = {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": when}]}
    cluster.store.update(kinds.JOB, "default", NAME, lambda _: made, of_status=True)


def remove_pods(cluster: Cluster, client: Client) -> None:
    """Remove the pods that are being deleted, as their kubelets would after their grace period."""
    for one in list(client.all(POD)):
        assert one["metadata"]["deletionTimestamp"]
        cluster.ask("DELETE", f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})


def disrupt(cluster: Cluster, client: Client) -> None:
    """Mark the only pod as the target of a disruption, and delete it, as the eviction API does."""
    (one,) = client.all(POD)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": one["metadata"]["name"]}}
    assert cluster.ask("POST", f"{PODS}/{one['metadata']['name']}/eviction", eviction)[0] == 201


def failing_once(method: Any, *errors: Exception) -> Any:
    """Return a method of `Client` that raises errors before it works."""
    left = list(errors)

    def call(self: Client, *arguments: Any, **options: Any) -> Any:
        if left:
            raise left.pop(0)
        return method(self, *arguments, **options)

    return call


CHANGED = ApiError(409, "Conflict", "the object has been modified")
GONE = ApiError(404, "NotFound", "not found")
