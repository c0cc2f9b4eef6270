"""Indexed Jobs on a cluster of localcloud, whose pods are processes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import image, wait_until
from tests.integration.localcloud.kubernetes.running_cluster import (
    JOBS,
    PODS,
    Cluster,
    a_running_cluster,
    training_job,
)

READ = "import os; E = os.environ;"


@pytest.fixture(scope="module")
def cluster(cloud: LocalCloud) -> Iterator[Cluster]:
    with a_running_cluster(cloud) as running:
        yield running


def test_an_indexed_job_of_two_pods_succeeds(cluster: Cluster, client: Callable[..., Any]) -> None:
    code = f"{READ} print(E['JOB_COMPLETION_INDEX'], E['HOSTNAME'], E['POD_IDENTITY'])"
    uri = image(client("ecr"), "succeeds", code, "train")
    assert cluster.ask("POST", JOBS, training_job("good", uri))[0] == 201
    wait_until(lambda: "Complete" in cluster.conditions("good"))
    _, job = cluster.ask("GET", f"{JOBS}/good")
    assert (job["status"]["completedIndexes"], job["status"]["succeeded"]) == ("0,1", 2)
    assert [one["type"] for one in job["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    pods = cluster.pods("good")
    assert [pod["spec"]["hostname"] for pod in pods] == ["good-0", "good-1"]
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    assert all("finalizers" not in pod["metadata"] for pod in pods)
    name = pods[1]["metadata"]["name"]
    assert cluster.request("GET", f"{PODS}/{name}/log").read() == b"1 good-1 default\n"
