"""kubectl uses a cluster with the kubeconfig of the server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcloud.server.local_cloud import LocalCloud
from localcloud.server.new_cluster import new_cluster
from localcloud.server.state_file import Running
from tests.integration.localcloud.eks.clusters import REGION, Clients, wanted

PROGRAM = Path(sys.executable).with_name("kubectl")
ARN = "arn:aws:eks:eu-west-1:123456789012:cluster/research"


def objects(verbs: list[str]) -> list[dict[str, Any]]:
    kind, named = {"apiVersion": "rbac.authorization.k8s.io/v1"}, {"name": "launch", "namespace": "training"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "launch"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "traingrid:grid:launch"}
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "training"}},
        {**kind, "kind": "Role", "metadata": named, "rules": [rule]},
        {**kind, "kind": "RoleBinding", "metadata": named, "roleRef": reference, "subjects": [subject]},
    ]


def kubeconfig(cloud: LocalCloud) -> Any:
    return yaml.safe_load((cloud.data_dir / "kubeconfig").read_text())


def kubectl(cloud: LocalCloud, home: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(home), "KUBECONFIG": str(cloud.data_dir / "kubeconfig"), "NO_PROXY": "127.0.0.1"}
    command = [str(PROGRAM), *words]
    return subprocess.run(
        command, env=environment, input=given, capture_output=True, text=True, check=False, timeout=60
    )


def test_kubectl_is_the_administrator(cloud: LocalCloud, cluster: str, tmp_path: Path) -> None:
    made = kubectl(cloud, tmp_path, "apply", "-f", "-", given=yaml.safe_dump_all(objects(["get"])))
    assert made.stdout.splitlines() == [
        "namespace/training created",
        "role.rbac.authorization.k8s.io/launch created",
        "rolebinding.rbac.authorization.k8s.io/launch created",
    ], made.stderr
    again = kubectl(cloud, tmp_path, "apply", "-f", "-", given=yaml.safe_dump_all(objects(["get", "list"])))
    assert again.stdout.splitlines() == [
        "namespace/training unchanged",
        "role.rbac.authorization.k8s.io/launch configured",
        "rolebinding.rbac.authorization.k8s.io/launch unchanged",
    ], again.stderr
    role = json.loads(kubectl(cloud, tmp_path, "-n", "training", "get", "role", "launch", "-o", "json").stdout)
    assert role["rules"][0]["verbs"] == ["get", "list"]
    found = json.loads(kubectl(cloud, tmp_path, "get", "namespaces", "-o", "json").stdout)
    assert "training" in [one["metadata"]["name"] for one in found["items"]]
    roles = kubectl(cloud, tmp_path, "get", "clusterroles", "-o", "name").stdout
    assert "clusterrole.rbac.authorization.k8s.io/view" in roles


def test_the_file_has_the_clusters_that_run(cloud: LocalCloud, client: Clients, cluster: str) -> None:
    path = cloud.data_dir / "kubeconfig"
    assert path.stat().st_mode & 0o777 == 0o600
    mine = {"name": "mine", "context": {"cluster": ARN, "user": ARN, "namespace": "training"}}
    changed = kubeconfig(cloud)
    changed["contexts"].append(mine)
    path.write_text(yaml.safe_dump(changed))
    client("eks", REGION).create_cluster(**wanted(client, "second"))
    second = ARN.replace("research", "second")
    assert kubeconfig(cloud)["current-context"] == second
    assert [one["name"] for one in kubeconfig(cloud)["contexts"]] == [ARN, "mine", second]
    client("eks", REGION).delete_cluster(name="second")
    assert [one["name"] for one in kubeconfig(cloud)["contexts"]] == [ARN, "mine"]
    assert [one["name"] for one in kubeconfig(cloud)["users"]] == [ARN]


def test_kubectl_reports_that_the_server_has_ended(cloud: LocalCloud, cluster: str, tmp_path: Path) -> None:
    changed = yaml.safe_load((cloud.data_dir / "kubeconfig").read_text().replace(str(cloud.data_dir), str(tmp_path)))
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(changed))
    refused = kubectl(cloud, tmp_path, "--kubeconfig", str(other), "get", "pods")
    assert refused.returncode == 1
    assert f"No local AWS runs in {tmp_path}." in refused.stderr


def test_the_command_creates_a_cluster_without_the_operator(cloud: LocalCloud, tmp_path: Path) -> None:
    running = Running(0, cloud.endpoint_url, str(cloud.data_dir), cloud.secret)
    assert new_cluster(running, "plain", REGION, with_operator=False) == ARN.replace("research", "plain")
    assert "error: the server doesn't have a resource type" in kubectl(cloud, tmp_path, "get", "mpijobs").stderr
    new_cluster(running, "full", REGION, with_operator=True)
    assert kubectl(cloud, tmp_path, "get", "mpijobs").stderr == "No resources found in default namespace.\n"


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "secret"])
def test_the_file_contains_no_secret(cloud: LocalCloud, cluster: str, name: str) -> None:
    secret = {"secret": cloud.secret}.get(name, name)
    assert secret not in (cloud.data_dir / "kubeconfig").read_text()
