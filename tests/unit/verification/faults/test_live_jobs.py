"""Live training jobs: the fault suite finds their pods and objects by names and owners, not by labels."""

from typing import Any, cast

import pytest

from localcloud.kubernetes.cluster import RunningCluster
from localcloud.kubernetes.resources import JOB, MPI_JOB_RESOURCE, POD, Resource
from verification.faults.live_jobs import names_in, pods_of

NAME = "grid-0123abcd-0-1"
OTHER = {"traingrid/name": "grid-eeeeeeee-0-1"}


class Store:
    """The objects of a cluster."""

    def __init__(self, objects: dict[Resource, list[dict[str, Any]]]) -> None:
        self.objects = objects

    def all(self, resource: Resource, where: Any = lambda _: True) -> tuple[list[dict[str, Any]], str]:
        return [one for one in self.objects.get(resource, []) if where(one)], "1"


class Cluster:
    """A cluster with objects."""

    def __init__(self, objects: dict[Resource, list[dict[str, Any]]]) -> None:
        self.store = Store(objects)


def pod(subdomain: str = NAME, phase: str = "Running", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{subdomain}-0", "labels": labels},
        "spec": {"subdomain": subdomain},
        "status": {"phase": phase},
    }


def made(name: str = NAME, subdomain: str = NAME, *, mpi: bool = False) -> dict[str, Any]:
    template = {"spec": {"subdomain": subdomain}}
    spec = {"mpiReplicaSpecs": {"Launcher": {"template": template}}} if mpi else {"template": template}
    return {"metadata": {"name": name}, "spec": spec}


def cluster_of(objects: dict[Resource, list[dict[str, Any]]]) -> RunningCluster:
    return cast("RunningCluster", Cluster(objects))


@pytest.mark.parametrize("labels", [{}, OTHER, {"traingrid/name": NAME}], ids=["removed", "changed", "own"])
def test_a_pod_is_found_whatever_its_labels(labels: dict[str, str]) -> None:
    cluster = cluster_of({POD: [pod(**labels), pod(phase="Failed"), pod("", **{"traingrid/name": NAME})]})
    assert len(pods_of(cluster, NAME)) == len(pods_of(cluster)) == 1
    assert pods_of(cluster, OTHER["traingrid/name"]) == []
    assert names_in(cluster) == {NAME}


def test_an_object_without_pods_is_found_without_labels_but_not_that_of_another_person() -> None:
    assert names_in(cluster_of({JOB: [made()]})) == names_in(cluster_of({MPI_JOB_RESOURCE: [made(mpi=True)]})) == {NAME}
    assert names_in(cluster_of({JOB: [made(subdomain="")]})) == set()
