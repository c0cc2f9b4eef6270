"""EKS backend and inventory: stop training jobs, and complete deletions of persons."""

from collections.abc import Callable
from typing import Any

import pytest

from localcloud.kubernetes import resources as kinds
from tests.integration.eks.steps import CHANGED, REGION, failing_once, finish, remove_pods, start
from tests.integration.localcloud.kubernetes.running_cluster import PODS, Cluster
from tests.support.eks_jobs import NAME, at, eks_job, running, terminated
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.inventory import EksInventory
from traingrid.backends.eks.pods import seconds_of
from traingrid.grid.deployment import Deployment
from traingrid.job.failures import failure_of_end
from traingrid.kubernetes.client import JOB, POD, Client
from traingrid.kubernetes.errors import ApiError, UnavailableError


def test_a_stop_is_repeated_if_the_object_has_changed(
    eks: Eks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(eks)
    monkeypatch.setattr(Client, "patch", failing_once(Client.patch, CHANGED, CHANGED))
    monkeypatch.setattr(Client, "delete", failing_once(Client.delete, CHANGED))
    eks.stop(NAME, "capacity")
    found = client.get(JOB, NAME)["metadata"]
    assert (found["annotations"]["traingrid/stopped-for"], "deletionTimestamp" in found) == ("capacity", True)


def test_a_stop_that_is_refused_is_an_error(eks: Eks, monkeypatch: pytest.MonkeyPatch) -> None:
    start(eks)
    monkeypatch.setattr(Client, "patch", failing_once(Client.patch, ApiError(403, "Forbidden", "cannot patch")))
    with pytest.raises(ApiError, match="cannot patch"):
        eks.stop(NAME)


def test_a_stopped_training_job_has_stopped_when_its_pods_are_gone(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    eks.stop(NAME, "capacity")
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.phase) == ("Stopped", "CapacityWaitExceeded")
    assert seen.started_at is not None, "it was noted, because the pods are gone"


def test_the_pods_of_an_object_that_a_person_deleted_are_deleted(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    client.delete(JOB, NAME)
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.reason) == ("Stopped", f"The Job {NAME} was deleted in the cluster, but not by traingrid.")


def test_an_ended_training_job_is_not_stopped(eks: Eks, client: Client, cluster: Cluster) -> None:
    start(eks)
    finish(cluster, "Complete")
    eks.stop(NAME)
    assert "deletionTimestamp" not in client.get(JOB, NAME)["metadata"]


def waiting(reason: str, message: str = "not found") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


@pytest.mark.parametrize("by", ["child", "reconciler"])
@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("ImagePullBackOff", "image"),
        ("CreateContainerConfigError", "not_started"),
        ("NewReason", "not_started"),
        ("ContainerCreating", "not_started"),
        ("PodInitializing", "not_started"),
    ],
)
def test_a_container_that_does_not_start_in_time_fails_the_training_job(  # noqa: PLR0917  # the fixtures
    eks: Eks,
    deployment: Deployment,
    client: Client,
    cluster: Cluster,
    add_pod: Callable[..., None],
    reason: str,
    failure: str,
    by: str,
) -> None:
    start(eks)
    add_pod(phase="Pending", prepare=waiting(reason))
    if by == "reconciler":
        inventory = EksInventory(deployment, REGION)
        (job,) = inventory.listed("InProgress")
        assert job.may_hang
        assert inventory.complete_stop(job)
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.failure) == ("Failed", failure)
    assert "for longer than the limit of" in seen.reason


def test_a_mount_that_fails_is_the_reason_of_a_training_job_that_does_not_start(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(phase="Pending", prepare=waiting("PodInitializing"))
    name, uid = f"{NAME}-0", client.get(POD, f"{NAME}-0")["metadata"]["uid"]
    involved = {"kind": "Pod", "name": name, "namespace": "default", "uid": uid}
    event = {"reason": "FailedMount", "message": "timed out.", "type": "Warning", "lastTimestamp": at(70)}
    made = {"metadata": {"name": "mount"}, "involvedObject": involved, **event}
    cluster.store.create(kinds.EVENT, "default", {"apiVersion": "v1", "kind": "Event", **made})
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    seen = eks.describe(NAME)
    assert seen
    waits = "The container prepare waits (PodInitializing): FailedMount: timed out"
    assert seen.reason == f"{waits}, for longer than the limit of 10 minutes."


@pytest.mark.parametrize("by", ["child", "reconciler"])
def test_an_mpijob_with_a_failed_worker_is_stopped_with_its_reason(  # noqa: PLR0917  # the fixtures
    eks: Eks, deployment: Deployment, client: Client, cluster: Cluster, add_pod: Callable[..., None], by: str
) -> None:
    start(eks, eks_job(eks_kind="mpijob", instance_count=2))
    add_pod(prepare=running())
    add_pod(1, phase="Failed", prepare=terminated(1, message="ClientError: Data download failed:NoSuchKey"))
    assert (eks.describe(NAME) or start(eks)).state == "InProgress", "the operator has not counted it"
    counted = cluster.store.get(kinds.MPI_JOB_RESOURCE, "default", NAME)
    counted["status"] = {"replicaStatuses": {"Worker": {"failed": 1}}}
    cluster.store.update(kinds.MPI_JOB_RESOURCE, "default", NAME, lambda _: counted, of_status=True)
    if by == "reconciler":
        inventory = EksInventory(deployment, REGION)
        (job,) = inventory.listed("InProgress")
        assert job.may_hang
        assert inventory.complete_stop(job)
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    for one in list(client.all(POD)):  # the garbage collector also deletes pods that have ended
        cluster.ask("DELETE", f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.failure, seen.reason) == ("Failed", "data", "ClientError: Data download failed:NoSuchKey")


def test_a_description_survives_a_change_while_it_ends_the_pods_of_a_deleted_object(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    client.delete(JOB, NAME)
    monkeypatch.setattr(Client, "delete", failing_once(Client.delete, CHANGED))
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)


@pytest.mark.usefixtures("quick")
def test_a_cancel_stops_a_training_job_while_the_webhook_of_kueue_is_down(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    cluster.faults.webhook_is_down = True
    eks.stop(NAME)
    assert "deletionTimestamp" in client.get(JOB, NAME)["metadata"]
    assert (eks.describe(NAME) or start(eks)).state == "Stopping", "the pods are deleted, too"
    remove_pods(cluster, client)
    stopped = [eks.describe(NAME)]
    cluster.faults.webhook_is_down = False
    stopped += [eks.describe(NAME), eks.describe(NAME)]
    for seen in stopped:
        assert seen
        assert (seen.state, seen.reason) == ("Stopped", "")
        assert seen.started_at == seconds_of(at(10))
    assert client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/stopped-for"] == "cancel"


@pytest.mark.usefixtures("quick")
def test_a_stop_whose_reason_only_the_object_keeps_waits_for_the_webhook_of_kueue(
    eks: Eks, client: Client, cluster: Cluster
) -> None:
    start(eks)
    cluster.faults.webhook_is_down = True
    with pytest.raises(UnavailableError, match=r"vjob\.kb\.io"):
        eks.stop(NAME, "capacity")
    assert "deletionTimestamp" not in client.get(JOB, NAME)["metadata"]


@pytest.mark.usefixtures("quick")
def test_the_reconciler_ends_pods_of_a_deleted_object_while_the_webhook_of_kueue_is_down(
    eks: Eks, deployment: Deployment, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    inventory = EksInventory(deployment, REGION)
    (job,) = inventory.listed("InProgress")
    cluster.faults.webhook_is_down = True
    assert inventory.stop(job)
    assert inventory.complete_stop(job)
    remove_pods(cluster, client)


def with_proxy(code: int) -> dict[str, Any]:
    """Return the states of a pod whose training has ended, while a container that a webhook added runs on."""
    states = {"prepare": terminated(), "results": running(), "train": terminated(code)}
    required = {"image": "x:1", "imageID": "", "ready": False, "restartCount": 0}
    named = [{"name": name, "state": state, **required} for name, state in states.items()]
    proxy = {"name": "istio-proxy", "state": running(), **required}
    return {"initContainerStatuses": named[:2], "containerStatuses": [named[2], proxy]}


@pytest.mark.parametrize("by", ["child", "reconciler"])
@pytest.mark.parametrize(("code", "state", "failure"), [(0, "Completed", ""), (3, "Failed", "algorithm")])
def test_a_training_ends_with_its_container_although_a_container_of_another_program_runs_on(  # noqa: PLR0917  # the fixtures
    eks: Eks,
    deployment: Deployment,
    client: Client,
    cluster: Cluster,
    add_pod: Callable[..., None],
    code: int,
    state: str,
    failure: str,
    by: str,
) -> None:
    start(eks)
    add_pod(**with_proxy(code))
    if by == "reconciler":
        inventory = EksInventory(deployment, REGION)
        (job,) = inventory.listed("InProgress")
        assert job.may_hang
        assert inventory.complete_stop(job)
    assert (eks.describe(NAME) or start(eks)).phase == "Uploading"
    remove_pods(cluster, client)
    finish(cluster, "Failed")  # the proxy ended with an error
    seen = eks.describe(NAME)
    assert seen
    ended = failure_of_end(seen)
    assert (seen.state, ended.name if ended else "") == (state, failure), seen.reason
    assert state == "Completed" or seen.reason == "AlgorithmError: exit code: 3"


def test_a_pod_that_another_container_keeps_running_is_left_while_other_hosts_train(
    eks: Eks, client: Client, add_pod: Callable[..., None]
) -> None:
    start(eks, eks_job(instance_count=2))
    add_pod(**with_proxy(0))
    add_pod(1, prepare=terminated(), train=running())
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    assert not any("deletionTimestamp" in one["metadata"] for one in client.all(POD))
