"""`traingrid local cluster` creates a cluster in the local AWS of the folder."""

import pytest
from click.testing import CliRunner, Result

from localcloud.server import lifecycle
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.state_file import Running
from tests.integration.localcloud.eks.clusters import REGION, Clients
from traingrid.cli.main import cli


@pytest.fixture
def running(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Running:
    found = Running(0, cloud.endpoint_url, str(cloud.data_dir), cloud.secret)
    monkeypatch.setattr(lifecycle, "status", lambda _folder: found)
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["local", "cluster", *words])


def test_a_cluster_has_the_operator_unless_it_is_left_out(running: Running, client: Clients) -> None:
    assert run("one", "--region", REGION).output.splitlines()[0] == ("arn:aws:eks:eu-west-1:123456789012:cluster/one")
    assert run("two", "--region", REGION, "--without-operator").exit_code == 0
    tags = [client("eks", REGION).describe_cluster(name=name)["cluster"]["tags"] for name in ("one", "two")]
    assert tags == [{}, {"localcloud:mpi-operator": "none"}]


def test_the_reason_of_a_refusal_is_printed(running: Running) -> None:
    run("taken", "--region", REGION)
    refused = run("taken", "--region", REGION)
    assert refused.exit_code != 0
    assert "Cluster already exists with name: taken" in str(refused.exception or refused.output)


def test_a_cluster_needs_a_running_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "status", lambda _folder: None)
    refused = run("none", "--region", REGION)
    assert refused.exit_code != 0
    assert "No local AWS runs here" in str(refused.exception or refused.output)
