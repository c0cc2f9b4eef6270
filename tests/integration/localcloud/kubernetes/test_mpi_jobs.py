"""MPIJobs on a cluster of localcloud, whose pods are processes."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import image, wait_until
from tests.integration.localcloud.kubernetes.running_cluster import (
    MERGE_PATCH,
    MPI_JOBS,
    PODS,
    Cluster,
    a_running_cluster,
    training_mpi_job,
)

START = "import os, signal, subprocess, sys, time; E = os.environ; launcher = E['K_MPI_JOB_ROLE'] == 'launcher';"
WAIT = f"{START} signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); time.sleep(60)"


@pytest.fixture(scope="module")
def cluster(cloud: LocalCloud) -> Iterator[Cluster]:
    with a_running_cluster(cloud) as running:
        yield running


def start(
    cluster: Cluster, client: Callable[..., Any], name: str, code: str, workers: int = 1, **metadata: Any
) -> None:
    uri = image(client("ecr"), f"image-{name}", code, "train")
    made = training_mpi_job(name, uri, workers)
    made["metadata"] |= metadata
    status, reply = cluster.ask("POST", MPI_JOBS, made)
    assert status == 201, reply


def conditions(cluster: Cluster, name: str) -> list[str]:
    found = cluster.ask("GET", f"{MPI_JOBS}/{name}")[1].get("status", {}).get("conditions", [])
    return [one["type"] for one in found if one["status"] == "True"]


def pods(cluster: Cluster, name: str) -> list[Any]:
    query = f"training.kubeflow.org/job-name={name}"
    return list(cluster.ask("GET", PODS, labelSelector=query)[1]["items"])


def test_the_launcher_reaches_its_worker_with_ssh(cluster: Cluster, client: Callable[..., Any]) -> None:
    code = (
        f"{START}\n"
        "if not launcher: os.execvp('sshd', ['sshd', '-D'])\n"
        "print(open(E['OMPI_MCA_orte_default_hostfile']).read().split())\n"
        "for name in ('two-worker-0.two', 'two-worker-0.two.default.svc'):\n"
        "    while subprocess.run(['ssh', name, 'true'], stderr=subprocess.DEVNULL).returncode: time.sleep(0.05)\n"
        "    print(subprocess.check_output(['ssh', name, 'echo from ssh']).decode(), end='', flush=True)\n"
        "print(subprocess.check_output(['ssh', 'two-launcher.two', 'echo itself']).decode(), end='', flush=True)\n"
        "print(subprocess.run(['ssh', 'two-worker-0', 'true'], stderr=subprocess.PIPE).stderr.decode(), flush=True)\n"
    )
    start(cluster, client, "two", code)
    wait_until(lambda: "Succeeded" in conditions(cluster, "two"))
    assert cluster.ask("GET", f"{MPI_JOBS}/two")[1]["status"]["replicaStatuses"]["Launcher"] == {"succeeded": 1}
    wait_until(lambda: len(pods(cluster, "two")) == 1)
    (launcher,) = pods(cluster, "two")
    log = cluster.request("GET", f"{PODS}/{launcher['metadata']['name']}/log").read().decode()
    hosts = ["two-launcher.two.default.svc", "slots=2", "two-worker-0.two.default.svc", "slots=2"]
    assert log.splitlines()[:4] == [str(hosts), *["from ssh"] * 2, "itself"]
    assert "Could not resolve hostname two-worker-0:" in log  # only the pod itself resolves its bare host name
    assert launcher["spec"]["hostname"] == "two-launcher"


def test_an_mpi_job_of_one_host_needs_no_workers(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "single", f"{START} print(E['HOSTNAME'])", workers=0)
    wait_until(lambda: "Succeeded" in conditions(cluster, "single"))


def test_a_failing_launcher_fails_the_job_and_ends_the_workers(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "broken", f"{START} launcher and (time.sleep(1), sys.exit(5)); time.sleep(60)")
    wait_until(lambda: "Failed" in conditions(cluster, "broken"))
    found = cluster.ask("GET", f"{MPI_JOBS}/broken")[1]["status"]
    (failed,) = [one for one in found["conditions"] if one["type"] == "Failed"]
    assert failed["reason"] == "BackoffLimitExceeded/"
    wait_until(lambda: [pod["spec"]["hostname"] for pod in pods(cluster, "broken")] == ["broken-launcher"])


def test_suspension_removes_all_pods_and_resumption_makes_new_ones(
    cluster: Cluster, client: Callable[..., Any]
) -> None:
    start(cluster, client, "paused", WAIT)
    wait_until(lambda: "Running" in conditions(cluster, "paused"))
    cluster.ask("PATCH", f"{MPI_JOBS}/paused", {"spec": {"runPolicy": {"suspend": True}}}, MERGE_PATCH)
    wait_until(lambda: not pods(cluster, "paused"))
    assert conditions(cluster, "paused") == ["Created", "Suspended"]
    cluster.ask("PATCH", f"{MPI_JOBS}/paused", {"spec": {"runPolicy": {"suspend": False}}}, MERGE_PATCH)
    wait_until(lambda: "Running" in conditions(cluster, "paused"))
    cluster.ask("DELETE", f"{MPI_JOBS}/paused", propagationPolicy="Foreground")
    wait_until(lambda: cluster.ask("GET", f"{MPI_JOBS}/paused")[0] == 404)
    assert pods(cluster, "paused") == []


def test_the_operator_ignores_a_job_that_is_being_deleted(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "kept", WAIT, finalizers=["traingrid/recorded"])
    wait_until(lambda: "Running" in conditions(cluster, "kept"))
    cluster.ask("DELETE", f"{MPI_JOBS}/kept")
    worker = f"{PODS}/kept-worker-0"
    cluster.ask("DELETE", worker)
    wait_until(lambda: cluster.ask("GET", worker)[0] == 404)
    time.sleep(0.5)
    assert [pod["spec"]["hostname"] for pod in pods(cluster, "kept")] == ["kept-launcher"]
    cluster.ask("PATCH", f"{MPI_JOBS}/kept", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    wait_until(lambda: not pods(cluster, "kept"))
