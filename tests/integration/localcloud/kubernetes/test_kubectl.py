"""kubectl, the real one of PyPI, against a cluster of localcloud."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.localcloud.compute import wait_until
from tests.integration.localcloud.kubernetes.running_cluster import Cluster, a_cluster, indexed_job, kubectl, mpi_job


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_kubectl_creates_lists_describes_and_deletes(cluster: Cluster) -> None:
    made = indexed_job("one", finalizers=["traingrid.dev/recorded"], labels={"grid": "traingrid"})
    assert kubectl(cluster, "create", "-f", "-", given=made).stdout == "job.batch/one created\n"
    assert kubectl(cluster, "create", "-f", "-", given=mpi_job("two")).stdout == "mpijob.kubeflow.org/two created\n"
    listed = kubectl(cluster, "get", "jobs,mpijobs", "-l", "grid=traingrid", "-o", "name").stdout
    assert listed.split() == ["job.batch/one", "mpijob.kubeflow.org/two"]
    described = kubectl(cluster, "describe", "job", "one").stdout
    assert "Completion Mode:    Indexed" in described
    assert "Image:      training:1" in described
    deleted = kubectl(cluster, "delete", "job", "one", "--wait=false").stdout
    assert deleted == 'job.batch "one" deleted from default namespace\n'
    assert "deletionTimestamp" in kubectl(cluster, "get", "job", "one", "-o", "yaml").stdout
    recorded = '{"metadata":{"finalizers":null}}'
    assert kubectl(cluster, "patch", "job", "one", "--type", "merge", "-p", recorded).returncode == 0
    gone = kubectl(cluster, "get", "job", "one")
    assert (gone.returncode, gone.stderr) == (1, 'Error from server (NotFound): jobs.batch "one" not found\n')


def test_kubectl_waits_for_an_object_with_a_finalizer(cluster: Cluster) -> None:
    kubectl(cluster, "create", "-f", "-", given=indexed_job("kept", finalizers=["traingrid.dev/recorded"]))
    waited = kubectl(cluster, "delete", "job", "kept", "--timeout=2s")
    assert waited.returncode == 1
    assert waited.stderr.endswith("error: timed out waiting for the condition on jobs/kept\n")


def test_kubectl_waits_until_an_object_is_gone(cluster: Cluster) -> None:
    kubectl(cluster, "create", "-f", "-", given=indexed_job("waited", finalizers=["traingrid.dev/recorded"]))
    with ThreadPoolExecutor() as pool:
        deletion = pool.submit(kubectl, cluster, "delete", "job", "waited", "--timeout=50s")
        wait_until(lambda: "deletionTimestamp" in kubectl(cluster, "get", "job", "waited", "-o", "yaml").stdout)
        time.sleep(1.0)
        assert not deletion.done()
        kubectl(cluster, "patch", "job", "waited", "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')
        assert deletion.result().stdout == 'job.batch "waited" deleted from default namespace\n'


def test_kubectl_reports_an_unknown_field(cluster: Cluster) -> None:
    made = indexed_job("misspelled")
    made["spec"]["backofLimit"] = 1
    refused = kubectl(cluster, "create", "-f", "-", given=made)
    assert 'strict decoding error: unknown field "spec.backofLimit"' in refused.stderr


def test_kubectl_reports_the_versions_and_the_resources(cluster: Cluster) -> None:
    assert "Server Version: v1.36.2" in kubectl(cluster, "version").stdout
    assert "mpijobs" in kubectl(cluster, "api-resources", "--api-group", "kubeflow.org").stdout
