"""Interruptions in a cluster of EKS: evicted pods, lost nodes, refused pods, and an upload after max_runtime."""

import json
from typing import Any

import pytest

from localcloud.faults.plan import CallFault, FaultPlan
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.child_process import Line, ended
from tests.integration.control_plane.eks.account import (
    ClusterAccount,
    objects,
    pods,
    released,
    submitted,
    train_without_a_child,
    violations,
)
from tests.integration.localcloud.compute import wait_until
from traingrid.aws.s3_uri import S3Uri
from traingrid.kubernetes.client import MERGE_PATCH, POD

MAX_RUNTIME_SECONDS, UPLOAD_SECONDS = 15, 20
"""The training ends a few seconds after the start of its pod, and its upload cannot end within the maximum runtime."""


@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_a_line_whose_pods_are_refused_shows_the_reason_and_trains_when_they_are_admitted(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any
) -> None:
    def enforce(level: str) -> None:
        labels = {"pod-security.kubernetes.io/enforce": level}
        content = json.dumps({"metadata": {"labels": labels}}).encode()
        account.cluster._json("PATCH", "/api/v1/namespaces/training", None, content, MERGE_PATCH)

    line = submitted(account, request, eks_kind=kind, hyperparameters={"seconds": 0})
    enforce("restricted")
    child = line.child()
    try:
        wait_until(lambda: line.state() and "violates PodSecurity" in line.item().reason)
        assert line.item().phase == "Starting"
        enforce("baseline")
        code, output = ended(child)
    finally:
        enforce("baseline")
        child.kill()
    assert (code, line.item().state, line.item().reason) == (0, "Completed", ""), output


@pytest.fixture(scope="module")
def slow_uploads(cloud: LocalCloud, account: ClusterAccount) -> dict[str, tuple[Line, int, str]]:
    """Train a Job and an MPIJob at once whose uploads are delayed; return each line, its exit code and its output."""
    lines = {
        kind: Line(account, f"{number:08x}", account.job(eks_kind=kind, max_runtime_seconds=MAX_RUNTIME_SECONDS))
        for number, kind in enumerate(("job", "mpijob"), start=1)
    }
    slow = [
        CallFault(effect="delay", service="s3", caller=f"pods/*/{line.name}-*/results", seconds=UPLOAD_SECONDS, times=1)
        for line in lines.values()
    ]
    cloud.faults.set(FaultPlan(calls=tuple(slow)))
    children = {kind: line.child() for kind, line in lines.items()}
    try:
        return {kind: (line, *ended(children[kind])) for kind, line in lines.items()}
    finally:
        for child in children.values():
            child.kill()
        cloud.faults.set(FaultPlan())


@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_a_training_that_ends_in_time_has_completed_if_its_upload_ends_after_max_runtime(
    account: ClusterAccount, slow_uploads: dict[str, tuple[Line, int, str]], kind: str
) -> None:
    line, code, output = slow_uploads[kind]
    (pod,) = pods(account, line)
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert (code, line.item().state, line.item().failure) == (0, "Completed", ""), output
    assert account.storage.read(S3Uri.parse(line.item().artifact), limit=10_000)


def evict(account: ClusterAccount, line: Line) -> None:
    """Evict the pod of the first attempt, as `kubectl drain` does."""
    (pod,) = pods(account, line)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
    path = f"{POD.path('training', pod['metadata']['name'])}/eviction"
    account.cluster._json("POST", path, None, json.dumps(eviction).encode())


@pytest.mark.parametrize("on_sigterm", [143, 0], ids=["fails", "ends without an error"])
def test_an_evicted_pod_is_a_lost_node_and_the_line_is_retried(
    account: ClusterAccount, request: pytest.FixtureRequest, on_sigterm: int
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600, "on_sigterm": on_sigterm}, retries=1)
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training")
        evict(account, line)
        code, output = ended(child)
    finally:
        child.kill()
    assert (code, line.item().state, line.item().attempt) == (0, "Completed", 2), output
    assert [previous.failure for previous in line.item().tried] == ["lost_node"]


@pytest.mark.parametrize("on_sigterm", [143, 0], ids=["fails", "ends without an error"])
def test_a_lost_node_is_recorded_after_its_pod_is_gone(
    account: ClusterAccount, request: pytest.FixtureRequest, on_sigterm: int
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600, "on_sigterm": on_sigterm})
    train_without_a_child(line)
    evict(account, line)
    wait_until(lambda: not pods(account, line))
    kinds = [condition["type"] for condition in objects(account, line)[0]["status"]["conditions"]]
    assert kinds[-1] == ("Failed" if on_sigterm else "Complete")
    account.reconciler().run_pass()
    assert (line.item().state, line.item().failure) == ("Failed", "lost_node"), line.item().reason
    wait_until(lambda: released(account, line))
    assert violations(account, line) == []
