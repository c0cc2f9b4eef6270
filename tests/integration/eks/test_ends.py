"""EKS backend: ends that only pods show, which are gone soon, are known from notes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.kubernetes import resources as kinds
from tests.integration.eks.steps import CHANGED, GONE, REGION, disrupt, failing_once, finish, remove_pods, start
from tests.integration.localcloud.kubernetes.running_cluster import PODS, Cluster
from tests.support.eks_jobs import NAME, at, eks_job, pod, running, terminated
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.inventory import EksInventory
from traingrid.grid.deployment import Deployment
from traingrid.kubernetes.client import JOB, POD, Client
from traingrid.kubernetes.errors import ApiError

LATER = "2126-01-01T00:00:00Z"
"""A time after the deletions of these tests."""


def test_a_disruption_is_known_when_its_pod_is_gone(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    disrupt(cluster, client)
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    noted = client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/disrupted"]
    assert "EvictionByEvictionAPI" in noted
    remove_pods(cluster, client)
    finish(cluster, "Complete")
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.failure, seen.reason.startswith(noted)) == ("Failed", "lost_node", True)


@pytest.mark.usefixtures("quick")
def test_a_disruption_is_known_although_the_webhook_of_kueue_was_down_when_it_was_seen(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    disrupt(cluster, client)
    cluster.faults.webhook_is_down = True
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    remove_pods(cluster, client)
    finish(cluster, "Complete")
    ends = [eks.describe(NAME)]
    cluster.faults.webhook_is_down = False
    ends.append(eks.describe(NAME))
    assert [(seen.state, seen.failure) for seen in ends if seen] == [("Failed", "lost_node")] * 2
    assert "EvictionByEvictionAPI" in client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/disrupted"]


@pytest.mark.parametrize("error", [CHANGED, GONE], ids=["changed", "gone"])
def test_a_description_survives_a_change_while_it_notes_a_disruption(  # noqa: PLR0917  # the fixtures
    eks: Eks,
    client: Client,
    cluster: Cluster,
    add_pod: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    disrupt(cluster, client)
    monkeypatch.setattr(Client, "patch", failing_once(Client.patch, error))
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    noted = "traingrid/disrupted" in client.get(JOB, NAME)["metadata"]["annotations"]
    assert noted is (error is CHANGED)


def add_kill(cluster: Cluster, event: str, when: str, container: str = "train", **pod: str) -> None:
    """Add the kubelet's event of a container that it ends."""
    involved = {"kind": "Pod", **pod, "fieldPath": f"spec.containers{{{container}}}"}
    made = {"metadata": {"name": event}, "involvedObject": involved, "reason": "Killing", "firstTimestamp": when}
    cluster.store.create(kinds.EVENT, "default", {"apiVersion": "v1", "kind": "Event", **made})


@pytest.mark.parametrize(("at_second", "state"), [(30, "Failed"), (0, "Completed")], ids=["after", "before"])
def test_the_kubelets_event_shows_a_training_that_was_ended(
    eks: Eks, client: Client, cluster: Cluster, at_second: int, state: str
) -> None:
    start(eks)
    finish(cluster, "Complete")
    started = cluster.store.get(kinds.JOB, "default", NAME)
    started["status"]["startTime"] = at(1)
    cluster.store.update(kinds.JOB, "default", NAME, lambda _: started, of_status=True)
    for container in ("train", "results"):
        add_kill(cluster, container, at(at_second), container, name=f"{NAME}-0-abcde")
    seen = eks.describe(NAME)
    assert seen
    assert seen.state == state
    assert ("traingrid/disrupted" in client.get(JOB, NAME)["metadata"]["annotations"]) is (state == "Failed")


def test_hosts_that_have_trained_are_known_when_their_pods_are_deleted_for_a_late_upload(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks, eks_job(instance_count=2))
    uploaded = terminated(until=55, message=json.dumps({"artifact": "s3://out/model.tar.gz"}))
    late = {"phase": "Failed", "reason": "DeadlineExceeded", "limit": 42, "results": uploaded}
    add_pod(prepare=terminated(until=15), train=terminated(), **late)
    add_pod(1, prepare=terminated(until=15), train=terminated(), results=running())
    assert (eks.describe(NAME) or start(eks)).state == "InProgress"
    cluster.ask("DELETE", f"{PODS}/{NAME}-1", {"gracePeriodSeconds": 0})
    finish(cluster, "Failed")
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.artifact) == ("Completed", "s3://out/model.tar.gz")


def test_a_deleted_training_job_whose_pods_end_by_themselves_has_completed(
    eks: Eks, client: Client, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(phase="Succeeded", prepare=terminated(), train=terminated(), results=terminated(until=55))
    client.delete(JOB, NAME)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.reason) == ("Completed", "")


def test_the_end_of_a_stopped_training_job_stays_when_its_pods_are_gone_and_the_controller_counts_one(
    eks: Eks, deployment: Deployment, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    eks.stop(NAME, "capacity")
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    train = {"terminated": {"exitCode": 0, "startedAt": at(20), "finishedAt": LATER}}
    ended = cluster.store.get(kinds.POD, "default", f"{NAME}-0")
    ended["status"] = pod(phase="Succeeded", train=train)["status"]
    cluster.store.update(kinds.POD, "default", f"{NAME}-0", lambda _: ended, of_status=True)
    ends = [eks.describe(NAME)]
    remove_pods(cluster, client)
    finish(cluster, "Complete", LATER)
    ends.append(eks.describe(NAME))
    assert [(seen.state, seen.phase) for seen in ends if seen] == [("Stopped", "CapacityWaitExceeded")] * 2
    (job,) = EksInventory(deployment, REGION).listed()
    assert job.state == "Stopped"


def test_the_end_of_a_completed_training_job_stays_when_its_object_is_deleted_and_its_pods_are_gone(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    artifact = f"{eks_job().output}{NAME}/output/model.tar.gz"
    uploaded = terminated(until=55, message=json.dumps({"artifact": artifact}))
    add_pod(phase="Succeeded", prepare=terminated(), train=terminated(), results=uploaded)
    client.delete(JOB, NAME)
    ends = [eks.describe(NAME)]
    cluster.ask("DELETE", f"{PODS}/{NAME}-0", {"gracePeriodSeconds": 0})
    ends.append(eks.describe(NAME))
    assert [(seen.state, seen.artifact) for seen in ends if seen] == [("Completed", artifact)] * 2


def annotate_first(monkeypatch: pytest.MonkeyPatch, client: Client, annotations: dict[str, str]) -> None:
    """Let another process annotate the object just before this one does."""
    method = Client.patch

    def second(self: Client, *arguments: Any) -> Any:
        monkeypatch.setattr(Client, "patch", method)
        client.patch(JOB, NAME, {"metadata": {"annotations": annotations}})
        return method(self, *arguments)

    monkeypatch.setattr(Client, "patch", second)


@pytest.mark.parametrize(
    ("note", "condition", "state"),
    [("trained", "Failed", "Completed"), ("disrupted", "Complete", "Failed")],
    ids=["trained", "disrupted"],
)
def test_an_end_is_decided_again_if_another_process_has_noted_a_fact(  # noqa: PLR0917  # the fixtures
    eks: Eks,
    client: Client,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    note: str,
    condition: str,
    state: str,
) -> None:
    start(eks)
    finish(cluster, condition)
    annotate_first(monkeypatch, client, {f"traingrid/{note}": "true"})
    ends = [eks.describe(NAME), eks.describe(NAME)]
    assert [seen.state for seen in ends if seen] == [state, state]


def test_the_facts_of_an_end_stay_if_the_pods_go_while_it_is_noted(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(eks)
    add_pod(phase="Succeeded", prepare=terminated(), train=terminated(), results=terminated(until=55))
    client.delete(JOB, NAME)
    method = Client.patch

    def patch(self: Client, *arguments: Any) -> Any:
        cluster.ask("DELETE", f"{PODS}/{NAME}-0", {"gracePeriodSeconds": 0})
        return method(self, *arguments)

    monkeypatch.setattr(Client, "patch", patch)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.training_seconds, seen.billable_seconds) == ("Completed", 30, 45)


def test_a_stopped_training_job_that_nothing_shows_as_trained_has_stopped(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    eks.stop(NAME, "capacity")
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    finish(cluster, "Complete", LATER)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.phase) == ("Stopped", "CapacityWaitExceeded")


def test_an_object_that_is_not_of_the_grid_gets_no_notes(eks: Eks, client: Client, cluster: Cluster) -> None:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "y"}]}}}
    foreign = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": NAME}, "spec": spec}
    cluster.store.create(kinds.JOB, "default", foreign)
    finish(cluster, "Complete")
    assert (eks.describe(NAME) or start(eks)).state == "Completed"
    assert "annotations" not in client.get(JOB, NAME)["metadata"]


def test_the_first_process_decides_the_end_of_a_deleted_training_job(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(eks)
    add_pod(phase="Succeeded", prepare=terminated(), train=terminated(), results=terminated(until=55))
    client.delete(JOB, NAME)
    end = json.dumps({"state": "Stopped", "phase": "Stopped", "reason": "Deleted."})
    annotate_first(monkeypatch, client, {"traingrid/ended": end})
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.reason) == ("Stopped", "Deleted.")


@pytest.mark.parametrize(
    "text", ["", "Stopped", "[]", "{}", '{"state": "Stopped"}', '{"state": "Running", "phase": ""}']
)
def test_an_end_that_another_program_has_written_is_ignored_unless_it_is_complete(
    eks: Eks, client: Client, add_pod: Callable[..., None], text: str
) -> None:
    start(eks)
    add_pod(phase="Succeeded", prepare=terminated(), train=terminated(), results=terminated(until=55))
    client.patch(JOB, NAME, {"metadata": {"annotations": {"traingrid/ended": text}}})
    client.delete(JOB, NAME)
    seen = eks.describe(NAME)
    assert seen
    assert seen.state == "Completed"


@pytest.mark.parametrize("errors", [[ApiError(403, "Forbidden", "denied")], [CHANGED] * 5], ids=["denied", "busy"])
def test_an_end_that_cannot_be_noted_is_known_nevertheless(
    eks: Eks, client: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, errors: list[ApiError]
) -> None:
    start(eks)
    finish(cluster, "Complete")
    monkeypatch.setattr(Client, "patch", failing_once(Client.patch, *errors))
    ends = [eks.describe(NAME), eks.describe(NAME)]
    assert [seen.state for seen in ends if seen] == ["Completed", "Completed"]
    assert json.loads(client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/ended"])["state"] == "Completed"


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_kubelets_event_shows_that_a_pod_was_deleted_while_it_trained(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None], *, is_killed: bool
) -> None:
    start(eks)
    add_pod(phase="Failed", prepare=terminated(), train=terminated(1))
    finish(cluster, "Failed")
    uid = client.get(POD, f"{NAME}-0")["metadata"]["uid"]
    if is_killed:
        add_kill(cluster, "kill", at(49), name=f"{NAME}-0", uid=uid)
    kept = {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}}
    client.patch(POD, f"{NAME}-0", kept)
    cluster.ask("DELETE", f"{PODS}/{NAME}-0", {"gracePeriodSeconds": 0})
    seen = eks.describe(NAME)
    assert seen
    assert seen.failure == ("lost_node" if is_killed else "algorithm")
    assert seen.reason.startswith(f"The pod {NAME}-0" if is_killed else "AlgorithmError")
