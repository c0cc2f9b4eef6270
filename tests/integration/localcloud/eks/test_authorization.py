"""Roles of the cluster and access policies determine the permissions of a user."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.credentials import Credentials

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.eks.clusters import JOBS, REGION, USER_TRUST, Clients, Sender, role, session
from tests.integration.localcloud.eks.conftest import As

ROLES = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/training/pods"
USER = "arn:aws:sts::123456789012:assumed-role/launch/someone"
LAUNCH = "arn:aws:iam::123456789012:role/launch"
GROUP = "traingrid:grid:launch"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "one"},
    "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "train", "image": "training:1"}]}}
    },
}
RULES: list[dict[str, Any]] = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["allowed"], "verbs": ["get"]},
]


@pytest.fixture
def launch(client: Clients, cluster: str, sent_by: As) -> Iterator[Sender]:
    """A session of the role `launch`, with an access entry in a group."""
    eks = client("eks", REGION)
    eks.create_access_entry(clusterName=cluster, principalArn=LAUNCH, kubernetesGroups=[GROUP])
    yield sent_by(session(client, "launch"))
    eks.delete_access_entry(clusterName=cluster, principalArn=LAUNCH)


def bind(administrator: Sender, subject: dict[str, str], rules: list[dict[str, Any]], namespace: str = "") -> None:
    """Make a role and bind it in a namespace, or a cluster role for the whole cluster."""
    start, path = ("", f"namespaces/{namespace}/") if namespace else ("Cluster", "")
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    made = {**kind, "kind": f"{start}Role", "metadata": {"name": "launch"}, "rules": rules}
    bound = {
        **kind,
        "kind": f"{start}RoleBinding",
        "metadata": {"name": "launch"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": f"{start}Role", "name": "launch"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", **subject}],
    }
    assert administrator.ask("POST", f"{ROLES}/{path}{start.lower()}roles", made)[0] == 201
    assert administrator.ask("POST", f"{ROLES}/{path}{start.lower()}rolebindings", bound)[0] == 201


@pytest.fixture
def bound(administrator: Sender) -> Iterator[None]:
    """A role of the group in the namespace `training`."""
    bind(administrator, {"kind": "Group", "name": GROUP}, RULES, "training")
    yield
    unbind(administrator, "namespaces/training/")


def unbind(administrator: Sender, path: str = "", start: str = "") -> None:
    for plural in ("rolebindings", "roles"):
        assert administrator.ask("DELETE", f"{ROLES}/{path}{start}{plural}/launch")[0] == 200


def forbidden(resource: str, name: str, what: str, group: str, where: str) -> dict[str, Any]:
    full = f"{resource}.{group}" if group else resource
    subject = f'{full} "{name}"' if name else full
    text = f'{subject} is forbidden: User "{USER}" cannot {what} in API group "{group}" {where}'
    details = {**({"name": name} if name else {}), **({"group": group} if group else {}), "kind": resource}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "message": text, "reason": "Forbidden", "details": details, "code": 403}


def test_an_access_entry_alone_allows_the_discovery_only(administrator: Sender, launch: Sender) -> None:
    assert launch.ask("GET", "/apis")[0] == 200
    assert launch.ask("GET", "/version")[0] == 200
    where = 'in the namespace "training"'
    created = launch.ask("POST", JOBS, JOB)
    assert created == (403, forbidden("jobs", "", 'create resource "jobs"', "batch", where))
    nodes = launch.ask("GET", "/api/v1/nodes")
    assert nodes == (403, forbidden("nodes", "", 'list resource "nodes"', "", "at the cluster scope"))
    assert administrator.ask("GET", f"{JOBS}/one")[0] == 404


def test_a_role_of_a_group_allows_its_rules_in_its_namespace(
    administrator: Sender, launch: Sender, bound: None
) -> None:
    where = 'in the namespace "training"'
    assert launch.ask("POST", JOBS, JOB)[0] == 201
    assert launch.ask("GET", f"{JOBS}/one")[0] == 200
    deleted = launch.ask("DELETE", f"{JOBS}/one")
    assert deleted == (403, forbidden("jobs", "one", 'delete resource "jobs"', "batch", where))
    assert launch.ask("GET", PODS)[0] == 200
    log = launch.ask("GET", f"{PODS}/one/log")
    assert log == (403, forbidden("pods", "one", 'get resource "pods/log"', "", where))
    assert launch.ask("GET", "/api/v1/pods")[0] == 403
    assert launch.ask("GET", JOBS.replace("training", "default"))[0] == 403
    assert administrator.ask("DELETE", f"{JOBS}/one")[0] == 200


def test_a_rule_with_names_allows_only_objects_with_these_names(launch: Sender, bound: None) -> None:
    maps = "/api/v1/namespaces/training/configmaps"
    assert launch.ask("GET", f"{maps}/allowed")[0] == 404
    assert launch.ask("GET", f"{maps}/other")[0] == 403
    assert launch.ask("GET", maps)[0] == 403


def test_a_binding_can_name_the_user(administrator: Sender, launch: Sender) -> None:
    bind(administrator, {"kind": "User", "name": USER}, RULES, "training")
    assert launch.ask("GET", PODS)[0] == 200
    unbind(administrator, "namespaces/training/")
    assert launch.ask("GET", PODS)[0] == 403


def test_a_cluster_role_binding_is_valid_in_all_namespaces(administrator: Sender, launch: Sender) -> None:
    bind(administrator, {"kind": "Group", "name": GROUP}, RULES)
    assert launch.ask("GET", "/api/v1/pods")[0] == 200
    assert launch.ask("GET", PODS)[0] == 200
    unbind(administrator, start="cluster")


@pytest.mark.parametrize(
    ("policy", "scope", "may"),
    [
        ("ClusterAdmin", {"type": "cluster"}, {"read", "write", "secrets", "roles", "nodes", "elsewhere"}),
        ("ClusterAdmin", {"type": "namespace", "namespaces": ["training"]}, {"read", "write", "secrets", "roles"}),
        ("Admin", {"type": "namespace", "namespaces": ["tra*"]}, {"read", "write", "secrets", "roles"}),
        ("Admin", {"type": "namespace", "namespaces": ["*"]}, {"read", "write", "secrets", "roles", "elsewhere"}),
        ("Edit", {"type": "namespace", "namespaces": ["training"]}, {"read", "write", "secrets"}),
        ("Edit", {"type": "cluster"}, {"read", "write", "secrets", "elsewhere"}),
        ("View", {"type": "namespace", "namespaces": ["training"]}, {"read"}),
        ("View", {"type": "namespace", "namespaces": ["other"]}, set()),
        ("AdminView", {"type": "cluster"}, {"read", "secrets", "nodes", "elsewhere"}),
    ],
)
def test_an_access_policy_allows_its_rules_in_its_scope(
    client: Clients, launch: Sender, policy: str, scope: dict[str, Any], may: set[str]
) -> None:
    client("eks", REGION).associate_access_policy(
        clusterName="research",
        principalArn=LAUNCH,
        policyArn=f"arn:aws:eks::aws:cluster-access-policy/AmazonEKS{policy}Policy",
        accessScope=scope,
    )
    requests = {
        "read": ("GET", PODS),
        "write": ("DELETE", f"{JOBS}/missing"),
        "secrets": ("GET", "/api/v1/namespaces/training/secrets"),
        "roles": ("DELETE", f"{ROLES}/namespaces/training/roles/missing"),
        "nodes": ("GET", "/api/v1/nodes"),
        "elsewhere": ("GET", "/api/v1/namespaces/default/pods"),
    }
    assert {name for name, request in requests.items() if launch.ask(*request)[0] != 403} == may


def test_a_deleted_and_recreated_role_has_no_access(
    client: Clients, cluster: str, sent_by: As, administrator: Sender
) -> None:
    eks, arn = client("eks", REGION), role(client, "replaced", USER_TRUST)
    eks.create_access_entry(clusterName=cluster, principalArn=arn)
    assert sent_by(session(client, "replaced")).ask("GET", "/apis")[0] == 200
    client("iam").delete_role(RoleName="replaced")
    role(client, "replaced", USER_TRUST)
    assert sent_by(session(client, "replaced")).ask("GET", "/apis")[0] == 401


def test_a_role_of_another_account_can_have_access(
    client: Clients, cluster: str, cloud: LocalCloud, sent_by: As, administrator: Sender
) -> None:
    session_there: Any = boto3.Session("localcloud-210987654321", cloud.secret, region_name=REGION)

    def other(service: str) -> Any:
        return session_there.client(service, endpoint_url=cloud.endpoint_url)

    trust = {"Principal": {"AWS": "arn:aws:iam::210987654321:root"}, "Action": "sts:AssumeRole"}
    arn = role(other, "elsewhere", trust)
    assert arn == "arn:aws:iam::210987654321:role/elsewhere"
    issued = other("sts").assume_role(RoleArn=arn, RoleSessionName="me")["Credentials"]
    keys = Credentials(issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"])
    assert sent_by(keys).ask("GET", "/apis")[0] == 401
    client("eks", REGION).create_access_entry(clusterName=cluster, principalArn=arn)
    assert sent_by(keys).ask("GET", "/apis")[0] == 200
    refused = sent_by(keys).ask("GET", PODS)[1]["message"]
    assert 'User "arn:aws:sts::210987654321:assumed-role/elsewhere/me" cannot list' in refused


def test_a_role_with_a_path_has_access_under_its_name(
    client: Clients, cluster: str, sent_by: As, administrator: Sender
) -> None:
    eks, arn = client("eks", REGION), role(client, "deep", USER_TRUST, "/team/apps/")
    entry = eks.create_access_entry(clusterName=cluster, principalArn=arn)["accessEntry"]
    assert arn == "arn:aws:iam::123456789012:role/team/apps/deep"
    assert entry["username"] == "arn:aws:sts::123456789012:assumed-role/deep/{{SessionName}}"
    issued = client("sts").assume_role(RoleArn=arn, RoleSessionName="me@example.com")["Credentials"]
    keys = Credentials(issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"])
    refused = sent_by(keys).ask("GET", PODS)[1]["message"]
    assert 'User "arn:aws:sts::123456789012:assumed-role/deep/me-example.com" cannot list' in refused
