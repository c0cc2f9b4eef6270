"""A cluster of localcloud with one namespace and the definition of MPIJob, and requests to it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from localcloud.kubernetes.api import Api
from localcloud.kubernetes.certificate import make_certificate
from localcloud.kubernetes.paths import Target
from localcloud.kubernetes.resources import BUILT_IN, MPI_JOB_RESOURCE, NAMESPACE
from localcloud.kubernetes.server import ClusterServer
from localcloud.kubernetes.status import unauthorized
from localcloud.kubernetes.store import Store

TOKEN = "token-of-a-test"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        address: Its URL.
        authority: The path of the certificate that clients trust.
        store: Its objects.
    """

    address: str
    authority: Path
    store: Store

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
        yield Cluster(server.address, authority, store)


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
