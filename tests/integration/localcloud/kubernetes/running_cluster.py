"""A cluster of localcloud with one namespace and the definition of MPIJob, and requests to it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from localcloud.kubernetes.api import Api
from localcloud.kubernetes.certificate import make_certificate
from localcloud.kubernetes.cluster import RunningCluster
from localcloud.kubernetes.paths import Target
from localcloud.kubernetes.resources import BUILT_IN, MPI_JOB_RESOURCE, NAMESPACE
from localcloud.kubernetes.server import ClusterServer
from localcloud.kubernetes.server_faults import ServerFaults
from localcloud.kubernetes.status import unauthorized
from localcloud.kubernetes.store import Store
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT

TOKEN = "token-of-a-test"
_KUBECTL = Path(sys.executable).with_name("kubectl")
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
SHARED = {"shareProcessNamespace": True}
"""As in the pods of the product: a program that has no handler of SIGTERM yet ends by it."""
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        address: Its URL.
        authority: The path of the certificate that clients trust.
        store: Its objects.
        faults: The faults of its server.
        running: The cluster with its controllers; None for an API alone.
    """

    address: str
    authority: Path
    store: Store
    faults: ServerFaults
    running: RunningCluster | None = None

    @property
    def controlled(self) -> RunningCluster:
        """The cluster with its controllers."""
        assert self.running
        return self.running

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = "application/json",
        token: str = TOKEN,
        **query: str,
    ) -> urllib3.BaseHTTPResponse:
        pool = urllib3.PoolManager(ca_certs=str(self.authority), retries=False)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": media}
        content = None if body is None else json.dumps(body).encode()
        url = f"{self.address}{path}?{'&'.join(f'{name}={value}' for name, value in query.items())}"
        return pool.request(method, url, body=content, headers=headers, preload_content=False, timeout=30)

    def ask(self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str) -> Any:
        """Return the status and the JSON of the reply."""
        reply = self.request(method, path, body, media, **query)
        return reply.status, json.loads(reply.read())

    def events(self, path: str, **query: str) -> Iterator[Any]:
        """Yield the events of a watch."""
        reply = self.request("GET", path, watch="1", **query)
        for line in reply:
            yield json.loads(line)

    def pods(self, job: str) -> list[Any]:
        """Return the pods of a Job."""
        return list(self.ask("GET", PODS, labelSelector=f"batch.kubernetes.io/job-name={job}")[1]["items"])

    def conditions(self, job: str) -> dict[str, str]:
        """Return the reasons of a Job's true conditions."""
        found = self.ask("GET", f"{JOBS}/{job}")[1]["status"].get("conditions") or []
        return {one["type"]: one["reason"] for one in found if one["status"] == "True"}

    def log(self, pod: Any) -> str:
        """Return the log of a pod with one container."""
        return self.request("GET", f"{PODS}/{pod['metadata']['name']}/log").read().decode()

    def finalizers(self, job: str) -> list[str]:
        """Return the finalizers of a Job."""
        return list(self.ask("GET", f"{JOBS}/{job}")[1]["metadata"].get("finalizers", []))

    def reasons(self, name: str) -> list[str]:
        """Return the reasons of an object's events."""
        found = self.ask("GET", "/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={name}")
        return [one["reason"] for one in found[1]["items"]]


@contextmanager
def a_cluster(folder: Path) -> Iterator[Cluster]:
    certificate, store = make_certificate(folder), Store()
    store.create(NAMESPACE, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    authority = folder / "authority.pem"
    authority.write_bytes(certificate.authority)

    def admit(token: str, _verb: str, _target: Target | None) -> None:
        if token != TOKEN:
            raise unauthorized()

    with ClusterServer(Api(store, (*BUILT_IN, MPI_JOB_RESOURCE)), certificate, admit) as server:
        yield Cluster(server.address, authority, store, server.faults)


def mpi_job(name: str) -> dict[str, Any]:
    replica = {"restartPolicy": "Never", "template": _pod()}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": name,
            "labels": {"grid": "traingrid", "submission": name[:4]},
            "finalizers": ["traingrid.dev/recorded"],
        },
        "spec": {
            "slotsPerWorker": 2,
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {"Launcher": {"replicas": 1, **replica}, "Worker": {"replicas": 2, **replica}},
        },
    }


def indexed_job(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0}
    pod = _pod()
    pod["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {**spec, "template": pod},
    }


def _pod() -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "train", "image": "training:1", "command": ["train"]}]}}


@contextmanager
def a_running_cluster(cloud: LocalCloud, name: str = "research", **options: Any) -> Iterator[Cluster]:
    """Run a cluster with controllers in one Region of a localcloud."""

    def admit(token: str, _verb: str, _target: Target | None) -> None:
        if token != TOKEN:
            raise unauthorized()

    def environment(_namespace: str, service_account: str) -> dict[str, str]:
        return {"POD_IDENTITY": service_account}

    given = {"name": name, "region": "us-east-1", "account": ACCOUNT, "pod_environment": environment, **options}
    with RunningCluster(cloud, admit=admit, **given) as running:
        authority = cloud.data_dir / f"{name}.pem"
        authority.write_bytes(running.authority)
        yield Cluster(running.address, authority, running.store, running.faults, running)


def training_job(name: str, uri: str, hosts: int = 2, metadata: Any = None, **pod: Any) -> dict[str, Any]:
    """Return an Indexed Job whose pods run an image; `pod` are more fields of the pods."""
    container = {"name": "train", "image": uri, "args": ["train"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "completions": hosts,
            "parallelism": hosts,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": {"traingrid/name": name}},
                "spec": {"restartPolicy": "Never", **SHARED, "containers": [container], **pod},
            },
        },
    }


def training_mpi_job(name: str, uri: str, workers: int = 1, **policy: Any) -> dict[str, Any]:
    """Return an MPIJob whose launcher is a worker, too; all pods run the same image."""
    container = {"name": "train", "image": uri, "args": ["train"]}
    replica = {"restartPolicy": "Never", "template": {"spec": {**SHARED, "containers": [container]}}}
    specs: dict[str, Any] = {"Launcher": {"replicas": 1, **replica}}
    specs |= {"Worker": {"replicas": workers, **replica}} if workers else {}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "slotsPerWorker": 2,
            "runLauncherAsWorker": True,
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running", **policy},
            "mpiReplicaSpecs": specs,
        },
    }


def kubectl(cluster: Cluster, *words: str, given: object = None) -> subprocess.CompletedProcess[str]:
    """Run kubectl, the real one of PyPI."""
    options = ["--server", cluster.address, "--certificate-authority", str(cluster.authority), "--token", TOKEN]
    cache = ["--cache-dir", str(cluster.authority.parent / "cache")]
    written = None if given is None else json.dumps(given)
    environment = {"HOME": str(cluster.authority.parent), "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        [str(_KUBECTL), *options, *cache, *words],
        input=written,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
