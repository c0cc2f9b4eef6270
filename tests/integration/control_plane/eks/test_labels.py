"""Labels: a training job is found, stopped and recorded by names and uids, not by labels."""

from typing import Any

import pytest

from tests.integration.control_plane.account import OTHER
from tests.integration.control_plane.child_process import Line
from tests.integration.control_plane.eks.account import (
    ClusterAccount,
    pods_of,
    submitted,
    train_without_a_child,
    violations,
)
from tests.integration.localcloud.compute import wait_until
from traingrid.backends import logs_of
from traingrid.backends.eks.backend import Eks
from traingrid.kubernetes.client import JOB, MPI_JOB, POD, Kind
from traingrid.ledger.user_requests import CANCEL_ALL

OWN = ("grid", "submission", "job", "attempt", "name")
LABELS: dict[str, dict[str, str | None]] = {
    "recorded": {"traingrid/recorded": "2099-01-01"},
    "removed": {f"traingrid/{name}": None for name in OWN},
    "of another submission": {
        "traingrid/submission": "eeeeeeee",
        "traingrid/name": "traingrid-eeeeeeee-0-1",
        "training.kubeflow.org/job-name": "traingrid-eeeeeeee-0-1",
        "training.kubeflow.org/job-role": "launcher",
    },
}


def relabel(account: ClusterAccount, line: Line, kind: Kind, labels: dict[str, str | None]) -> None:
    """Change the labels of a line's object and of its pods, as `kubectl label` does."""
    account.cluster.patch(kind, f"{line.name}-1", {"metadata": {"labels": labels}})
    for pod in pods_of(account, line):
        account.cluster.patch(POD, pod["metadata"]["name"], {"metadata": {"labels": labels}})


@pytest.mark.parametrize("labels", LABELS.values(), ids=list(LABELS))
@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_a_cancelled_training_job_without_a_child_is_stopped_whatever_its_labels(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any, labels: dict[str, str | None]
) -> None:
    algorithms = ["algo-1", "algo-2"] if kind == "mpijob" else ["algo-1"]
    hosts = {"instance_count": 2, "launcher": "none"} if kind == "mpijob" else {}
    line = submitted(account, request, eks_kind=kind, hyperparameters={"seconds": 600}, **hosts)
    train_without_a_child(line)
    relabel(account, line, MPI_JOB if kind == "mpijob" else JOB, labels)
    eks = Eks(account.deployment, OTHER)
    seen = eks.describe(f"{line.name}-1")
    assert seen
    assert seen.phase == "Training", "its pods are found"
    streams = logs_of(account.deployment, OTHER, "eks").log_streams(f"{line.name}-1")
    assert [stream.partition("/")[0] for stream in streams] == algorithms
    account.ledger.request_cancel(line.submission, CANCEL_ALL, {"by": "Ada", "reason": "wrong data"})

    def is_stopped() -> bool:
        account.reconciler().run_pass()
        state = line.item().state
        assert state != "Stopped" or pods_of(account, line) == [], "it is recorded when its last pod has ended"
        return state == "Stopped"

    done = account.reconciler().run_pass()
    assert done.stopped == [f"{line.name}-1"]
    wait_until(is_stopped)
    assert line.item().failure == "stopped_by_user"
    assert violations(account, line) == []


def test_a_pod_that_its_controller_has_released_is_stopped_with_its_training_job(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600})
    train_without_a_child(line)
    (pod,) = pods_of(account, line)
    relabel(account, line, JOB, dict.fromkeys(pod["metadata"]["labels"]))
    wait_until(lambda: len(pods_of(account, line)) == 2)
    account.ledger.request_cancel(line.submission, CANCEL_ALL, {"by": "Ada", "reason": "wrong data"})

    def is_stopped() -> bool:
        account.reconciler().run_pass()
        return line.item().state == "Stopped" and pods_of(account, line) == []

    wait_until(is_stopped)
    assert violations(account, line) == []
