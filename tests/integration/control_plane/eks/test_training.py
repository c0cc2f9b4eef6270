"""Children train in pods of a cluster of EKS: one training job, its result and its logs, also after a death."""

from typing import Any

import pytest

from tests.integration.control_plane.child_process import ended
from tests.integration.control_plane.eks.account import (
    ClusterAccount,
    objects,
    pods,
    released,
    submitted,
    violations,
)
from tests.integration.localcloud.compute import wait_until
from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogReader
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.kubernetes.client import JOB, MPI_JOB


def test_a_child_trains_in_pods_and_the_reconciler_releases_the_end(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, instance_count=2)
    code, output = ended(line.child())
    assert code == 0, output
    item = line.item()
    assert (item.state, item.backend, item.reason) == ("Completed", "eks", "")
    assert account.storage.read(S3Uri.parse(item.artifact), limit=10_000)
    for host in (1, 2):
        assert f"[algo-{host}] trains ['shard'] {line.name}-1-{host - 1}.{line.name}-1" in output
        assert f"[algo-{host}] ends" in output
    assert item.training_job_arn.endswith(objects(account, line)[0]["metadata"]["uid"])
    assert item.training_started_at > 0
    assert objects(account, line)[0]["metadata"]["finalizers"] == ["traingrid/recorded"]
    wait_until(lambda: released(account, line))
    assert violations(account, line) == []


def test_the_launcher_and_the_workers_of_an_mpijob_train(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, instance_count=2, eks_kind="mpijob")
    code, output = ended(line.child())
    assert (code, line.item().state) == (0, "Completed"), output
    assert f"[algo-1] trains ['shard'] {line.name}-1-launcher.{line.name}-1" in output
    (mpi_job,) = account.cluster.all(MPI_JOB, labels=f"traingrid/submission={line.submission}")
    assert mpi_job["status"]["replicaStatuses"]["Launcher"]["succeeded"] == 1
    # The operator deletes workers that still run when the launcher has ended, and the rest of their logs with them.
    assert "[algo-3]" not in output
    assert line.item().artifact.endswith(f"/{line.name}-1/output/model.tar.gz")


@pytest.mark.parametrize("at", ["Creating", "Starting", "Downloading", "Training"])
def test_a_child_killed_at_any_point_leaves_one_training_job(
    account: ClusterAccount, request: pytest.FixtureRequest, at: str
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 3})
    first = line.child()
    order = ["Creating", "Starting", "Pending", "Downloading", "Training"]
    try:
        wait_until(lambda: line.state() and line.item().phase in order[order.index(at) :])
    finally:
        first.kill()
        first.communicate()
    code, output = ended(line.child())
    assert (code, line.item().state) == (0, "Completed"), output
    assert len(objects(account, line)) == 1
    assert len(line.item().tried) == 0
    assert violations(account, line) == []


def test_commands_read_the_logs_of_pods(account: ClusterAccount, request: pytest.FixtureRequest) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 0})
    assert ended(line.child())[0] == 0
    nothing: Any = None
    plane = ControlPlane(deployment=account.deployment, ledger=account.ledger, batch=nothing, storage=account.storage)
    reader = LogReader(plane=plane, submission=line.submission, index=0)
    assert [(logged.host, logged.text) for logged in reader.lines()][-1] == ("algo-1", "ends")
    assert [logged.text for logged in reader.lines(tail=1)] == ["ends"]
    wait_until(lambda: released(account, line))
    account.cluster.delete(JOB, f"{line.name}-1")
    wait_until(lambda: not pods(account, line))
    with pytest.raises(TraingridError, match="no longer exist in the namespace training"):
        list(LogReader(plane=plane, submission=line.submission, index=0).lines())
