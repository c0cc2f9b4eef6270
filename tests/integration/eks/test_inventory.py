"""EKS inventory: lists the training jobs of a grid in a cluster, and releases them when their ends are recorded."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from localcloud.kubernetes import resources as kinds
from tests.integration.localcloud.kubernetes.running_cluster import Cluster
from tests.support.eks_jobs import NAME, at, eks_job
from tests.support.module_time import replace_time
from traingrid import names
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.inventory import EksInventory
from traingrid.backends.training_job import TrainingJob, is_ours
from traingrid.grid.deployment import Deployment
from traingrid.job.ownership import tags_of
from traingrid.kubernetes.client import JOB, POD, Client

REGION = "eu-west-1"


@pytest.fixture
def inventory(deployment: Deployment) -> EksInventory:
    return EksInventory(deployment, REGION)


def create(deployment: Deployment, index: int = 0, **fields: Any) -> str:
    eks, job = Eks(deployment, REGION), eks_job(index=index, **fields)
    name = names.training_job("traingrid", "0123abcd", index, 1)
    eks.start(name, job, tags_of("traingrid", "0123abcd", index, eks.fingerprint(name, job)))
    return name


def finish(cluster: Cluster, name: str = NAME, condition: str = "Complete") -> None:
    made = cluster.store.get(kinds.JOB, "default", name)
    made["status"] = {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": at(60)}]}
    cluster.store.update(kinds.JOB, "default", name, lambda _: made, of_status=True)


def ended(inventory: EksInventory) -> list[str]:
    return [job.name for job in inventory.ended()]


def one(inventory: EksInventory) -> TrainingJob:
    (found,) = inventory.listed()
    return found


def test_training_jobs_are_listed_by_state_and_submission(
    deployment: Deployment, inventory: EksInventory, cluster: Cluster
) -> None:
    running, completed, mpi = (create(deployment), create(deployment, 1), create(deployment, 2, eks_kind="mpijob"))
    finish(cluster, completed)
    assert {job.name: job.state for job in inventory.listed()} == {
        running: "InProgress",
        completed: "Completed",
        mpi: "InProgress",
    }
    assert {job.name for job in inventory.listed("InProgress")} == {running, mpi}
    assert list(inventory.listed(submission="eeeeeeee")) == []
    job = next(inventory.listed("InProgress"))
    assert (job.backend, job.region, job.arn.split("/")[-2]) == ("eks", REGION, job.name)
    assert inventory.has_our_tag(job)


@pytest.mark.parametrize(
    "labels",
    [
        {"traingrid/recorded": "2026-01-01"},
        {"traingrid/recorded": ""},
        {"traingrid/grid": "other", "traingrid/submission": "eeeeeeee", "traingrid/name": "other"},
        {"traingrid/grid": None, "traingrid/submission": None, "traingrid/name": None},
    ],
    ids=["recorded", "recorded without a date", "changed", "removed"],
)
def test_a_running_training_job_is_found_and_stopped_whatever_its_labels(
    deployment: Deployment, inventory: EksInventory, client: Client, labels: dict[str, str | None]
) -> None:
    create(deployment)
    client.patch(JOB, NAME, {"metadata": {"labels": labels}})
    (job,) = inventory.listed("InProgress", "0123abcd")
    assert job.name == NAME
    assert inventory.stop(job)
    assert ended(inventory) == [NAME], "it has ended, because it had no pods"
    assert inventory.release(job)
    assert "traingrid/recorded" not in client.get(JOB, NAME)["metadata"].get("finalizers", [])


def test_a_running_training_job_is_found_without_finalizers_labels_and_annotations(
    deployment: Deployment, inventory: EksInventory, client: Client
) -> None:
    create(deployment)
    client.patch(JOB, NAME, {"metadata": {"finalizers": None, "labels": None, "annotations": None}})
    job = one(inventory)
    assert (job.state, inventory.has_our_tag(job)) == ("InProgress", True)


def test_an_end_is_released_although_a_person_set_the_label_of_released_objects(
    deployment: Deployment, inventory: EksInventory, cluster: Cluster, client: Client
) -> None:
    create(deployment)
    finish(cluster)
    client.patch(JOB, NAME, {"metadata": {"labels": {"traingrid/recorded": "2099-01-01"}}})
    assert ended(inventory) == [NAME]
    assert inventory.release(one(inventory))
    assert "finalizers" not in client.get(JOB, NAME)["metadata"]


def test_objects_of_another_grid_are_not_listed(
    deployment: Deployment, inventory: EksInventory, client: Client
) -> None:
    create(deployment)
    made = client.get(JOB, NAME)
    metadata = {"name": NAME.replace("traingrid", "other"), "labels": made["metadata"]["labels"]}
    template = {**made["spec"]["template"], "metadata": {}}
    spec = {"template": template, "backoffLimit": 0}
    client.create(JOB, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    assert [job.name for job in inventory.listed()] == [NAME]


def test_a_recorded_end_is_released_once_and_keeps_its_object(
    deployment: Deployment, inventory: EksInventory, cluster: Cluster, client: Client
) -> None:
    create(deployment)
    assert not inventory.release(one(inventory)), "it runs"
    finish(cluster)
    assert ended(inventory) == [NAME]
    assert inventory.release(one(inventory))
    metadata = client.get(JOB, NAME)["metadata"]
    assert "finalizers" not in metadata
    assert metadata["labels"]["traingrid/recorded"] == datetime.now(UTC).date().isoformat()
    assert ended(inventory) == []
    assert [job.state for job in inventory.listed()] == ["Completed"]


def test_a_released_object_is_deleted_after_some_days(
    deployment: Deployment, inventory: EksInventory, cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(deployment)
    finish(cluster)
    inventory.release(one(inventory))
    later = (datetime.now(UTC) + timedelta(days=9)).timestamp()
    replace_time(monkeypatch, "traingrid.backends.eks.inventory", time=lambda: later)
    assert ended(inventory) == [NAME]
    assert inventory.release(one(inventory))
    assert client.find(JOB, NAME) is None


def test_a_stopped_training_job_is_gone_when_it_is_released(
    deployment: Deployment, inventory: EksInventory, client: Client
) -> None:
    create(deployment)
    assert inventory.stop(one(inventory))
    assert not inventory.stop(one(inventory)), "it has ended, because it had no pods"
    assert [job.state for job in inventory.listed()] == ["Stopped"]
    client.patch(JOB, NAME, {"metadata": {"finalizers": ["traingrid/recorded"]}})  # as after a deletion of its pods
    assert inventory.release(one(inventory))
    assert client.find(JOB, NAME) is None


def test_other_finalizers_stay(
    deployment: Deployment, inventory: EksInventory, cluster: Cluster, client: Client
) -> None:
    create(deployment)
    finish(cluster)
    client.patch(JOB, NAME, {"metadata": {"finalizers": ["traingrid/recorded", "example.com/other"]}})
    assert inventory.release(one(inventory))
    assert client.get(JOB, NAME)["metadata"]["finalizers"] == ["example.com/other"]


def test_details_have_the_facts_that_a_list_lacks(
    deployment: Deployment, inventory: EksInventory, cluster: Cluster
) -> None:
    create(deployment)
    finish(cluster)
    details = inventory.details(one(inventory))
    assert details
    assert details.state == "Completed"
    assert details.artifact.endswith("/output/model.tar.gz")
    assert details.ended_at == one(inventory).ended_at
    assert not details.is_exact, "this cluster has no pods"


def add_released_pod(client: Client, spec: dict[str, Any], name: str = f"{NAME}-0-abcde") -> None:
    """Create a pod without labels, annotations and a controller."""
    spec = {**spec, "serviceAccountName": "default"}
    client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_pods_without_their_object_are_listed_and_stopped(
    deployment: Deployment, inventory: EksInventory, client: Client
) -> None:
    create(deployment)
    add_released_pod(client, client.get(JOB, NAME)["spec"]["template"]["spec"])
    assert [job.orphaned_pods for job in inventory.listed()] == [()], "its object is present"
    client.patch(JOB, NAME, {"metadata": {"finalizers": None}})
    client.delete(JOB, NAME)
    (job,) = inventory.listed("InProgress", "0123abcd")
    assert (job.name, job.orphaned_pods) == (NAME, (f"{NAME}-0-abcde",))
    assert list(inventory.listed("InProgress", "eeeeeeee")) == []
    assert inventory.has_our_tag(job)
    details = inventory.details(job)
    assert details
    assert details.state == "InProgress"
    assert inventory.stop(job)
    assert list(inventory.listed()) == []
    assert (inventory.stop(job), inventory.details(job)) == (False, None)


def test_pods_of_an_earlier_object_are_stopped_without_the_next_one(
    deployment: Deployment, inventory: EksInventory, client: Client
) -> None:
    create(deployment)
    add_released_pod(client, client.get(JOB, NAME)["spec"]["template"]["spec"])
    client.patch(JOB, NAME, {"metadata": {"finalizers": None}})
    client.delete(JOB, NAME)
    time.sleep(1.1)  # times of Kubernetes are whole seconds
    create(deployment)
    own, orphaned = inventory.listed()
    assert (own.orphaned_pods, orphaned.orphaned_pods) == ((), (f"{NAME}-0-abcde",))
    assert inventory.stop(orphaned)
    assert [job.name for job in inventory.listed("InProgress")] == [NAME]


def test_pods_of_others_are_not_stopped(deployment: Deployment, inventory: EksInventory, client: Client) -> None:
    add_released_pod(client, {"subdomain": NAME, "containers": [{"name": "train", "image": "train:1"}]}, "theirs")
    job = one(inventory)
    assert job.orphaned_pods == ("theirs",)
    assert not is_ours(inventory, job, None)
