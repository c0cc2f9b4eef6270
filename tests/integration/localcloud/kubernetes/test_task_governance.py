"""HyperPod task governance: in a namespace that it manages, Jobs of lines with a queue run, and MPIJobs do not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localcloud.kubernetes.task_governance import MANAGED
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import image, wait_until
from tests.integration.localcloud.kubernetes.running_cluster import (
    JOBS,
    MERGE_PATCH,
    MPI_JOBS,
    Cluster,
    a_running_cluster,
    training_job,
    training_mpi_job,
)
from tests.support.eks_jobs import training_object
from traingrid.backends.eks.indexed_job import indexed_job

QUEUE = {"kueue.x-k8s.io/queue-name": "hyperpod-ns-research-localqueue"}
DENIED = (
    "ValidatingAdmissionPolicy 'hyperpod-task-governance-admission-policy' with binding "
    "'hyperpod-task-governance-admission-policy-binding' denied request: "
    "The label 'kueue.x-k8s.io/queue-name' is either missing or does not have a value set."
)


@pytest.fixture(scope="module")
def cluster(cloud: LocalCloud) -> Iterator[Cluster]:
    with a_running_cluster(cloud, "governed") as running:
        assert (
            running.ask("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": MANAGED}}, MERGE_PATCH)[0] == 200
        )
        running.controlled.queues[QUEUE["kueue.x-k8s.io/queue-name"]] = 2
        yield running


def queued_job(client: Callable[..., Any], name: str) -> dict[str, Any]:
    uri = image(client("ecr"), f"image-{name}", "pass", "train")
    return training_job(name, uri, hosts=1, metadata={"labels": QUEUE})


def test_the_job_of_a_line_with_a_queue_runs(cluster: Cluster, client: Callable[..., Any]) -> None:
    made, queue = queued_job(client, "queued"), QUEUE["kueue.x-k8s.io/queue-name"]
    template = indexed_job(training_object(queue=queue))["spec"]["template"]
    made["spec"]["template"]["metadata"] = {"labels": template["metadata"]["labels"]}
    assert cluster.ask("POST", JOBS, made)[0] == 201
    wait_until(lambda: "Complete" in cluster.conditions("queued"))


def test_a_job_without_a_queue_is_denied(cluster: Cluster, client: Callable[..., Any]) -> None:
    made = queued_job(client, "without")
    del made["metadata"]["labels"]
    status, reply = cluster.ask("POST", JOBS, made)
    assert (status, reply["message"]) == (422, f'jobs.batch "without" is forbidden: {DENIED}')


def test_pods_without_the_label_of_their_job_are_denied(cluster: Cluster, client: Callable[..., Any]) -> None:
    assert cluster.ask("POST", JOBS, queued_job(client, "unlabelled"))[0] == 201
    wait_until(lambda: "FailedCreate" in cluster.reasons("unlabelled"))
    assert cluster.pods("unlabelled") == []
    cluster.ask("DELETE", f"{JOBS}/unlabelled")


def test_the_operator_cannot_create_the_launcher_of_an_mpi_job(cluster: Cluster, client: Callable[..., Any]) -> None:
    uri = image(client("ecr"), "image-mpi", "pass", "train")
    made = training_mpi_job("mpi", uri, 0)
    made["metadata"]["labels"] = QUEUE
    made["spec"]["mpiReplicaSpecs"]["Launcher"]["template"].setdefault("metadata", {})["labels"] = QUEUE
    assert cluster.ask("POST", MPI_JOBS, made)[0] == 201
    wait_until(lambda: "MPIJobFailed" in cluster.reasons("mpi"))
