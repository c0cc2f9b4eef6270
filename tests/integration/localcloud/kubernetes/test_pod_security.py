"""Pod Security Standards: the product's pods are admitted by `baseline`, and `restricted` refuses them with reasons."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.kubernetes.resources import NAMESPACE, SERVICE_ACCOUNT
from tests.integration.localcloud.kubernetes.running_cluster import MERGE_PATCH, PODS, Cluster, a_cluster
from tests.support.eks_jobs import training_object
from traingrid.backends.eks.pod_template import pod_template

CONTAINERS = 'containers "prepare", "results", "train"'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("cluster")) as running:
        for name in ("default", "traingrid"):
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
            running.store.create(SERVICE_ACCOUNT, "default", account)
        yield running


def created(cluster: Cluster, level: str, name: str, change: Any = None) -> tuple[int, str]:
    """Create a pod of a training job in a namespace that enforces a level; return the status and the message."""
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}
    assert cluster.ask("PATCH", "/api/v1/namespaces/default", labels, MERGE_PATCH)[0] == 200
    template = pod_template(training_object())
    if change:
        change(template["spec"])
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]}
    status, reply = cluster.ask("POST", PODS, made)
    return status, str(reply.get("message", ""))


@pytest.mark.parametrize("level", ["privileged", "baseline"])
def test_the_pods_of_training_jobs_are_admitted(cluster: Cluster, level: str) -> None:
    assert created(cluster, level, f"admitted-{level}")[0] == 201


def test_restricted_refuses_pods_that_run_as_root(cluster: Cluster) -> None:
    status, message = created(cluster, "restricted", "refused")
    assert status == 403
    assert message == (
        'pods "refused" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
        '(container "train" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities '
        f'({CONTAINERS} must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or '
        f"{CONTAINERS} must set securityContext.runAsNonRoot=true), runAsUser=0 "
        '(containers "prepare", "results" must not set runAsUser=0), seccompProfile (pod or '
        f'{CONTAINERS} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )


def test_baseline_refuses_privileges(cluster: Cluster) -> None:
    def privileged(spec: dict[str, Any]) -> None:
        spec["hostNetwork"] = True
        spec["volumes"].append({"name": "node", "hostPath": {"path": "/"}})
        spec["containers"][0]["securityContext"] = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}

    status, message = created(cluster, "baseline", "privileged", privileged)
    assert status == 403
    for part in (
        "hostNetwork=true",
        "securityContext.privileged=true",
        '"SYS_ADMIN"',
        'hostPath volumes (volume "node',
    ):
        assert part in message


def test_a_namespace_without_the_label_admits_all(cluster: Cluster) -> None:
    assert (
        "labels"
        not in cluster.store.create(
            NAMESPACE, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}}
        )["metadata"]
    )
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "traingrid"}}
    cluster.store.create(SERVICE_ACCOUNT, "free", account)
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": pod_template(training_object())["spec"],
    }
    assert cluster.ask("POST", "/api/v1/namespaces/free/pods", made)[0] == 201
