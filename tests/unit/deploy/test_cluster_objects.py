"""Objects in a cluster: doctor finds missing permissions, operators, queues and volumes, with the repairing command."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from tests.unit.deploy.test_cluster import ACTING, Eks, place
from traingrid.backends.eks.refusals import OPERATOR
from traingrid.deploy.checkup import cluster_objects
from traingrid.deploy.checkup.cluster import CheckedCluster
from traingrid.deploy.checkup.cluster_objects import objects
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Finding, Verdict
from traingrid.deploy.checkup.mpi_operator import MIN_OPERATOR
from traingrid.deploy.checkup.needs import ClusterNeed
from traingrid.deploy.cluster_access import access_objects
from traingrid.kubernetes.cluster import cluster_of
from traingrid.kubernetes.errors import ApiError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.kubernetes.client import Client, Kind

CONTEXT = "aws eks update-kubeconfig --region eu-west-1 --name research --alias research"
APPLY = (
    f"as an administrator of the cluster: {CONTEXT} && "
    "traingrid eks access eu-west-1 | kubectl --context research apply -f -"
)
SETTINGS: dict[str, Any] = {
    "cluster": "research",
    "namespace": "training",
    "service_account": "jobs",
    "kind": "mpijob",
    "queue": "gpus",
    "s3_volumes": {"campaigns": "campaigns-claim"},
    "file_system_volumes": {"fs-0123456789abcdef0": "recordings"},
}
REGION: dict[str, Any] = {
    "eks": SETTINGS,
    "data_buckets": ["campaigns"],
    "file_systems": {"fs-0123456789abcdef0": "EFS"},
}
WHERE = place(regions={"eu-west-1": REGION})
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
NAMESPACED = "/namespaces/training/"
DEPLOYMENTS = "/apis/apps/v1"
COREDNS = {"replicas": 2, "template": {"spec": {"containers": [{"name": "coredns", "image": "coredns:v1.11.4"}]}}}
INSTALL = (
    f"as an administrator of the cluster: {CONTEXT} && kubectl --context research apply --server-side -f "
    "https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.1/deploy/v2beta1/mpi-operator.yaml"
)
FIND = (
    f"find its image, whose version must be 0.8.1 or later: {CONTEXT} && "
    "kubectl --context research get deployments --all-namespaces --output wide | grep mpi-operator"
)


class InMemory:
    """The objects of a cluster by path, and the permissions of its groups, which are those of the applied Roles."""

    def __init__(self) -> None:
        self.namespace = "training"
        self.objects: dict[str, dict[str, Any]] = {}
        self.denied: set[str] = set()
        self.error: Exception | None = None
        for made in access_objects("grid", WHERE.settings):
            self.add(made)
        for claim in ("campaigns-claim", "recordings"):
            self.objects[f"/api/v1{NAMESPACED}persistentvolumeclaims/{claim}"] = {"status": {"phase": "Bound"}}
        self.objects[f"/apis/kueue.x-k8s.io/v1beta1{NAMESPACED}localqueues/gpus"] = {"metadata": {"name": "gpus"}}
        self.objects[f"/apis/kubeflow.org/v2beta1{NAMESPACED}mpijobs"] = {}
        self.operator("mpioperator/mpi-operator:0.8.1")

    def add(self, made: dict[str, Any]) -> None:
        root = "apis" if "/" in made["apiVersion"] else "api"
        where = "/" if made["kind"] == "Namespace" else NAMESPACED
        path = f"/{root}/{made['apiVersion']}{where}{made['kind'].lower()}s/{made['metadata']['name']}"
        self.objects[path] = made

    def operator(
        self, image: str, namespace: str = "mpi-operator", name: str = "mpi-operator", replicas: int = 1
    ) -> None:
        containers = [{"name": "proxy", "image": "proxy:1.0.0"}, {"name": "mpi-operator", "image": image}]
        self.objects[f"{DEPLOYMENTS}/namespaces/{namespace}/deployments/{name}"] = {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
        }

    def remove(self, end: str) -> None:
        (path,) = [path for path in self.objects if path.endswith(f"/{end}")]
        del self.objects[path]

    def find(self, kind: Kind, name: str) -> dict[str, Any] | None:
        return self.objects.get(self._asked(kind.path(self.namespace, name)))

    def all(self, kind: Kind) -> Iterator[dict[str, Any]]:
        assert self._asked(kind.path(self.namespace)) == f"{DEPLOYMENTS}/deployments"
        yield {"metadata": {"namespace": "kube-system", "name": "coredns"}, "spec": COREDNS}
        yield from [one for path, one in self.objects.items() if path.startswith(DEPLOYMENTS)]

    def pages(self, kind: Kind) -> Iterator[tuple[list[Any], str]]:
        if self._asked(kind.path(self.namespace)) not in self.objects:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        yield [], "1"

    def create(self, kind: Kind, made: dict[str, Any]) -> dict[str, Any]:
        assert self._asked(kind.path(self.namespace)) == REVIEWS
        spec = made["spec"]
        asked = spec["resourceAttributes"]
        assert asked["namespace"] == "training"
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource", ""))))
        roles = [
            self.objects.get(path.replace("rolebindings", "roles"), {})
            for path, one in self.objects.items()
            if "rolebindings" in path and one["subjects"][0]["name"] in spec["groups"]
        ]
        rules = [rule for role in roles for rule in role.get("rules", ())]
        allowed = any(
            asked["verb"] in rule["verbs"] and asked["group"] in rule["apiGroups"] and resource in rule["resources"]
            for rule in rules
        )
        return {"status": {"allowed": allowed}}

    def _asked(self, path: str) -> str:
        if self.error:
            raise self.error
        if any(part in path for part in self.denied):
            raise ApiError(403, "Forbidden", f"{path} is forbidden")
        return path


@pytest.fixture
def cluster() -> InMemory:
    return InMemory()


def checked(cluster: InMemory) -> dict[str, Finding]:
    return {found.subject: found for found in objects(WHERE, lambda _: cast("Client", cluster))}


def wrong(cluster: InMemory) -> Finding:
    """Return the only finding that is not good."""
    (found,) = [one for one in checked(cluster).values() if one.verdict is not Verdict.GOOD]
    return found


def test_a_cluster_with_all_objects_is_good(cluster: InMemory) -> None:
    found = checked(cluster)
    assert {one.verdict for one in found.values()} == {Verdict.GOOD}
    assert list(found) == [
        "API of research",
        "namespace training",
        "service account jobs",
        "permissions of traingrid:grid:launch",
        "permissions of traingrid:grid:sweep",
        "MPIJob v2beta1",
        "mpi-operator",
        "LocalQueue gpus",
        "claim campaigns-claim",
        "claim recordings",
    ]
    assert found["permissions of traingrid:grid:launch"].reason == "as the API server reports"


@pytest.mark.parametrize(
    ("missing", "what", "fix"),
    [
        ("namespaces/training", "namespace training", APPLY),
        ("serviceaccounts/jobs", "service account jobs", APPLY),
        ("roles/traingrid-grid-sweep", "permissions of traingrid:grid:sweep", APPLY),
        ("rolebindings/traingrid-grid-launch", "permissions of traingrid:grid:launch", APPLY),
        ("training/mpijobs", "MPIJob v2beta1", f"change `kind` in `eks` of eu-west-1 to job, or {INSTALL}"),
        ("localqueues/gpus", "LocalQueue gpus", "create it in training"),
        ("persistentvolumeclaims/recordings", "claim recordings", "create it in training"),
    ],
)
@pytest.mark.parametrize("denied", [set(), {REVIEWS}], ids=["reviews", "roles compared"])
def test_a_missing_object_is_reported(cluster: InMemory, missing: str, what: str, fix: str, denied: set[str]) -> None:
    cluster.remove(missing)
    cluster.denied = denied
    found = wrong(cluster)
    assert (found.subject, found.verdict) == (what, Verdict.WRONG)
    assert found.fix.startswith(fix)


@pytest.mark.parametrize(
    ("metadata", "why", "fix"),
    [
        (
            {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
            "enforces the Pod Security Standard restricted",
            f"as an administrator of the cluster: {CONTEXT} && kubectl --context research label --overwrite namespace",
        ),
        (
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "is being deleted",
            f"find the objects that keep it: {CONTEXT} && kubectl --context research describe namespace training",
        ),
    ],
)
def test_a_namespace_that_admits_no_pods_is_wrong(
    cluster: InMemory, metadata: dict[str, Any], why: str, fix: str
) -> None:
    cluster.objects["/api/v1/namespaces/training"]["metadata"] |= metadata
    found = wrong(cluster)
    assert (found.subject, found.verdict) == ("namespace training", Verdict.WRONG)
    assert found.reason.startswith(why)
    assert found.fix.startswith(fix)


def test_a_missing_permission_is_named(cluster: InMemory) -> None:
    role = cluster.objects[f"/apis/rbac.authorization.k8s.io/v1{NAMESPACED}roles/traingrid-grid-launch"]
    for rule in role["rules"]:
        if rule["resources"] == ["pods/log"]:
            rule["verbs"] = []
    assert wrong(cluster).reason == "it may not get pods/log in training"
    cluster.denied = {REVIEWS}
    assert (
        wrong(cluster).reason == "the Role traingrid-grid-launch or its RoleBinding differs from that of this version"
    )


def test_the_reconciler_must_not_create_jobs(cluster: InMemory) -> None:
    role = cluster.objects[f"/apis/rbac.authorization.k8s.io/v1{NAMESPACED}roles/traingrid-grid-sweep"]
    role["rules"].append({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]})
    found = wrong(cluster)
    assert found.subject == "permissions of traingrid:grid:sweep"
    assert "it may create jobs or pods" in found.reason
    assert f"{CONTEXT} && kubectl --context research get rolebindings,clusterrolebindings" in found.fix


def test_a_cluster_without_mpi_jobs_needs_no_operator() -> None:
    cluster, where = InMemory(), place()
    cluster.objects = {path: one for path, one in cluster.objects.items() if "kubeflow" not in path}
    found = {one.subject: one for one in objects(where, lambda _: cast("Client", cluster))}
    assert len(found) == 5
    assert {one.verdict for one in found.values()} == {Verdict.GOOD}


@pytest.mark.parametrize(
    ("image", "verdict", "why", "fix"),
    [
        ("mpioperator/mpi-operator:0.8.0", Verdict.WRONG, "a second launcher could run beside the first", INSTALL),
        ("ghcr.io/kubeflow/mpi-operator:v0.6.0@sha256:00", Verdict.WRONG, "before 0.8.1", INSTALL),
        ("mpioperator/mpi-operator:0.5", Verdict.WRONG, "before 0.8.1", INSTALL),
        ("mpioperator/mpi-operator:latest", Verdict.UNKNOWN, "does not name its version", FIND),
        ("mpioperator/mpi-operator:0.8", Verdict.UNKNOWN, "does not name its version", FIND),
        ("ghcr.io/kubeflow/mpi-operator:v0.8.2", Verdict.GOOD, "0.8.2", ""),
        ("mpioperator/mpi-operator:0.10.0", Verdict.GOOD, "0.10.0", ""),
        ("mpioperator/mpi-operator:0.9", Verdict.GOOD, "0.9", ""),
    ],
)
def test_the_version_of_mpi_operator_is_checked(
    cluster: InMemory, image: str, verdict: Verdict, why: str, fix: str
) -> None:
    cluster.operator(image)
    found = checked(cluster)["mpi-operator"]
    assert (found.verdict, found.fix) == (verdict, fix)
    assert why in found.reason


def test_the_operator_of_a_hyperpod_cluster_is_found_in_its_namespace(cluster: InMemory) -> None:
    cluster.remove("deployments/mpi-operator")
    cluster.operator("mpioperator/mpi-operator:0.5", "kube-system", "dependencies-mpi-operator")
    found = wrong(cluster)
    assert (found.subject, found.verdict) == ("mpi-operator", Verdict.WRONG)
    assert found.reason.endswith("; dependencies-mpi-operator in kube-system is mpioperator/mpi-operator:0.5")
    assert found.fix == (
        "when no MPIJob runs, remove dependencies-mpi-operator from kube-system (in the Helm chart of SageMaker "
        f"HyperPod by `mpi-operator.enabled: false`), then {INSTALL}"
    )


def test_an_old_operator_beside_a_new_one_is_wrong_while_it_runs(cluster: InMemory) -> None:
    cluster.operator("mpioperator/mpi-operator:0.5", "kube-system", "dependencies-mpi-operator")
    assert "dependencies-mpi-operator in kube-system" in wrong(cluster).reason
    cluster.operator("mpioperator/mpi-operator:0.5", "kube-system", "dependencies-mpi-operator", replicas=0)
    assert checked(cluster)["mpi-operator"].verdict is Verdict.GOOD


@pytest.mark.parametrize(
    ("denied", "is_there", "verdict", "why"),
    [
        ({f"{DEPLOYMENTS}/deployments"}, True, Verdict.GOOD, "0.8.1"),
        ({f"{DEPLOYMENTS}/deployments"}, False, Verdict.UNKNOWN, "it has no Deployment in the namespace mpi-operator"),
        (set(), False, Verdict.UNKNOWN, "it has no Deployment in the cluster, so its version is not checked"),
        ({DEPLOYMENTS}, True, Verdict.UNKNOWN, "the caller may not read its Deployment"),
    ],
)
def test_an_operator_that_cannot_be_found_has_a_command(
    cluster: InMemory, denied: set[str], is_there: bool, verdict: Verdict, why: str
) -> None:
    if not is_there:
        cluster.remove("deployments/mpi-operator")
    cluster.denied = denied
    found = checked(cluster)["mpi-operator"]
    assert (found.verdict, found.fix) == (verdict, "" if verdict is Verdict.GOOD else FIND)
    assert found.reason.startswith(why)


def test_the_command_installs_an_operator_that_is_new_enough() -> None:
    version = re.search(r"/v(\d+)\.(\d+)\.(\d+)/", OPERATOR)
    assert version
    assert tuple(map(int, version.groups())) >= MIN_OPERATOR


def test_the_kind_and_the_queue_of_a_line_are_checked_as_those_of_the_region() -> None:
    needs = [
        ClusterNeed(region="eu-west-1", field="kind", value="mpijob", line=3),
        ClusterNeed(region="eu-west-1", field="queue", value="nope", line=5),
        ClusterNeed(region="us-west-2", field="queue", value="elsewhere", line=7),
    ]
    where = CheckedCluster.of(place().grid, "123456789012", "eu-west-1", needs=needs)
    assert where
    cluster = InMemory()
    cluster.remove("training/mpijobs")
    found = {one.subject: one for one in objects(where, lambda _: cast("Client", cluster))}
    assert [what for what, one in found.items() if one.verdict is Verdict.WRONG] == [
        "MPIJob v2beta1",
        "LocalQueue nope",
    ]
    assert found["MPIJob v2beta1"].reason == "the cluster does not serve it, but `eks_kind` of line 3 is mpijob"
    assert found["MPIJob v2beta1"].fix == f"change `eks_kind` of line 3 to job, or {INSTALL}"
    assert found["LocalQueue nope"].fix.endswith(", or correct `eks_queue` of line 5")


def test_the_queue_of_the_region_is_checked_beside_those_of_lines() -> None:
    need = ClusterNeed(region="eu-west-1", field="queue", value="gpus", line=2)
    where = replace(WHERE, needs=[need, replace(need, value="others", line=4)])
    cluster = InMemory()
    found = {one.subject: one for one in objects(where, lambda _: cast("Client", cluster))}
    assert {what: one.verdict for what, one in found.items() if "Queue" in what} == {
        "LocalQueue gpus": Verdict.GOOD,
        "LocalQueue others": Verdict.WRONG,
    }


def test_an_inactive_queue_and_a_pending_claim_are_wrong(cluster: InMemory) -> None:
    conditions = [{"type": "Active", "status": "False", "message": "ClusterQueue is missing"}]
    cluster.objects[f"/apis/kueue.x-k8s.io/v1beta1{NAMESPACED}localqueues/gpus"] = {
        "status": {"conditions": conditions}
    }
    cluster.objects[f"/api/v1{NAMESPACED}persistentvolumeclaims/recordings"] = {"status": {"phase": "Pending"}}
    found = checked(cluster)
    assert found["LocalQueue gpus"].reason == "it is not active: ClusterQueue is missing"
    assert found["claim recordings"].reason == "it is Pending, not Bound"
    describe = f"{CONTEXT} && kubectl --context research describe"
    assert found["claim recordings"].fix == f"{describe} pvc --namespace training recordings"
    assert found["LocalQueue gpus"].fix == f"{describe} localqueue --namespace training gpus"


def test_a_queue_of_a_newer_version_is_found(cluster: InMemory) -> None:
    path = f"/apis/kueue.x-k8s.io/v1beta1{NAMESPACED}localqueues/gpus"
    cluster.objects[path.replace("v1beta1", "v1beta2")] = cluster.objects.pop(path)
    assert checked(cluster)["LocalQueue gpus"].verdict is Verdict.GOOD


@pytest.mark.parametrize(
    ("denied", "what", "needed"),
    [
        ("persistentvolumeclaims/recordings", "claim recordings", "get persistentvolumeclaims"),
        ("localqueues", "LocalQueue gpus", "get localqueues"),
        ("serviceaccounts", "service account jobs", "get serviceaccounts"),
    ],
)
def test_a_denied_check_is_neither_good_nor_wrong(cluster: InMemory, denied: str, what: str, needed: str) -> None:
    cluster.denied = {denied}
    found = wrong(cluster)
    assert (found.subject, found.verdict) == (what, Verdict.UNKNOWN)
    assert found.fix == f"allow the caller to {needed} in research"


def test_without_reviews_and_roles_the_permissions_are_unknown(cluster: InMemory) -> None:
    cluster.denied = {REVIEWS, "rbac.authorization.k8s.io"}
    found = checked(cluster)["permissions of traingrid:grid:launch"]
    assert (found.verdict, found.fix) == (
        Verdict.UNKNOWN,
        "allow the caller to get roles and rolebindings in research",
    )


def test_a_caller_without_access_checks_nothing_more(cluster: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_objects, "principal", lambda home: f"arn:of:{home}")
    cluster.error = UnavailableError(401, "Unauthorized", "Unauthorized")
    (found,) = checked(cluster).values()
    assert found.verdict is Verdict.UNKNOWN
    assert found.reason == "it does not accept your credentials, so the objects in it are not checked"
    entry = "--region eu-west-1 --cluster-name research --principal-arn arn:of:us-east-1"
    assert found.fix == (
        f"aws eks create-access-entry {entry} --kubernetes-groups traingrid:grid:use; "
        f"if it has an access entry already: aws eks update-access-entry {entry} --kubernetes-groups "
        f"$(aws eks describe-access-entry {entry} --query accessEntry.kubernetesGroups --output text) "
        "traingrid:grid:use"
    )


def test_a_deployment_gives_the_role_of_users_in_another_account_its_access(cluster: InMemory) -> None:
    cluster.error = UnavailableError(401, "Unauthorized", "Unauthorized")
    (found,) = objects(place(ACTING), lambda _: cast("Client", cluster))
    assert found.reason == "it does not accept the role grid-use-eu-west-1, so the objects in it are not checked"
    assert found.fix == REVERT_DRIFT


def test_an_endpoint_that_does_not_answer_here_is_unknown(cluster: InMemory) -> None:
    cluster.error = UnavailableError(0, "NewConnectionError", "timed out")
    (found,) = checked(cluster).values()
    assert found.verdict is Verdict.UNKNOWN
    assert "it does not answer here: timed out; whether children and the reconciler reach it is unknown" in found.reason


@pytest.mark.parametrize(
    ("error", "why", "fix"),
    [
        (
            ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeCluster"),
            "AWS returned AccessDeniedException: no",
            "allow the caller eks:DescribeCluster",
        ),
        (EndpointConnectionError(endpoint_url="https://eks"), "AWS does not answer: ", ""),
        (NoCredentialsError(), "AWS cannot be called: Unable to locate credentials", ""),
    ],
)
def test_without_a_description_of_the_cluster_nothing_is_checked(error: Exception, why: str, fix: str) -> None:
    def fails(_: object) -> Client:
        raise error

    (found,) = objects(WHERE, fails)
    assert (found.verdict, found.subject, found.fix) == (Verdict.UNKNOWN, "API of research", fix)
    assert found.reason.startswith(why)


@pytest.mark.parametrize("status", ["CREATING", "FAILED"])
def test_objects_of_a_cluster_without_an_api_are_not_checked(status: str) -> None:
    eks = Eks()
    eks.cluster = {"status": status}

    def fails(_: object) -> Client:
        return cast("Client", cluster_of("research", "eu-west-1", lambda *_: eks))

    assert not list(objects(WHERE, fails))
