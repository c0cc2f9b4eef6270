"""A grid with a cluster of localcloud that has no controllers, so that a test decides what happens in it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from localcloud.kubernetes import resources as kinds
from localcloud.kubernetes.resources import SERVICE_ACCOUNT
from tests.integration.eks.steps import REGION
from tests.integration.localcloud.kubernetes.running_cluster import TOKEN, Cluster, a_cluster
from tests.support.eks_jobs import CLUSTER_ARN, NAME, eks_deployment, pod
from traingrid.backends.eks import backend, jobs
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.owned_pods import CONTROLLER_UID
from traingrid.backends.eks.watch import ChangeWatch
from traingrid.grid.deployment import Deployment
from traingrid.kubernetes import cluster as clusters
from traingrid.kubernetes.client import JOB, MPI_JOB, POD, Client
from traingrid.kubernetes.connection import RequestLimits
from traingrid.kubernetes.token import Tokens


class FixedTokens(Tokens):
    """Tokens of a test; `refused` are discarded ones."""

    def __init__(self, *tokens: str) -> None:
        self.tokens, self.refused = list(tokens), list[str]()

    def current(self) -> str:
        return self.tokens[0]

    def discard(self, token: str) -> None:
        self.refused.append(token)
        if len(self.tokens) > 1:
            self.tokens.pop(0)


@pytest.fixture(autouse=True)
def watches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the watches of a test, whose threads would otherwise ask its server every five seconds until the end."""
    opened: list[ChangeWatch] = []

    def watch(*arguments: Any) -> ChangeWatch:
        opened.append(ChangeWatch(*arguments))
        return opened[-1]

    monkeypatch.setattr(backend, "ChangeWatch", watch)
    yield
    for one in opened:
        one.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_cluster(tmp_path) as running:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        running.store.create(SERVICE_ACCOUNT, "default", account)
        yield running


@pytest.fixture
def described(cluster: Cluster) -> clusters.Cluster:
    return clusters.Cluster(
        name="research", arn=CLUSTER_ARN, endpoint=cluster.address, authority=cluster.authority.read_text()
    )


@pytest.fixture
def client(described: clusters.Cluster) -> Client:
    return Client(described, "default", FixedTokens(TOKEN), RequestLimits(tries=2), sleep=lambda _: None)


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch, described: clusters.Cluster) -> Any:
    """Return a deployment whose Region has the cluster."""
    monkeypatch.setattr(jobs, "cluster_of", lambda *_: described)
    monkeypatch.setattr(jobs, "Tokens", lambda *_: FixedTokens(TOKEN))
    return eks_deployment(namespace="default")


@pytest.fixture
def eks(deployment: Deployment) -> Eks:
    return Eks(deployment, REGION)


def owned(client: Client) -> dict[str, Any]:
    """Return the metadata by which a pod belongs to the training job, as its controller writes it."""
    for kind, label in ((JOB, CONTROLLER_UID), (MPI_JOB, "training.kubeflow.org/job-name")):
        if made := client.find(kind, NAME):
            uid = made["metadata"]["uid"]
            owner = {"apiVersion": kind.version, "kind": kind.kind, "name": NAME, "uid": uid, "controller": True}
            return {"labels": {label: uid if kind is JOB else NAME}, "ownerReferences": [owner]}
    return {}


@pytest.fixture
def add_pod(cluster: Cluster, client: Client) -> Callable[..., None]:
    """Return a function that adds a pod in a state, as a controller and a kubelet would."""

    def add(index: int = 0, **status: Any) -> None:
        made = pod(index, **status)
        spec = {"containers": [{"name": "train", "image": "train:1"}], **made["spec"]}
        metadata = {name: value for name, value in made["metadata"].items() if name != "uid"} | owned(client)
        client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        wanted = {**cluster.store.get(kinds.POD, "default", made["metadata"]["name"]), "status": made["status"]}
        cluster.store.update(kinds.POD, "default", made["metadata"]["name"], lambda _: wanted, of_status=True)

    return add


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that repeat a request without a pause."""
    monkeypatch.setattr(jobs, "Client", partial(Client, sleep=lambda _: None))
