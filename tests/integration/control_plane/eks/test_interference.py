"""Interference: persons and other programs change the objects of running training jobs."""

import time
from typing import Any

import pytest

from tests.integration.control_plane.account import OTHER
from tests.integration.control_plane.child_process import Line, ended
from tests.integration.control_plane.eks.account import ClusterAccount, objects, pods, pods_of, submitted, violations
from tests.integration.localcloud.compute import wait_until
from traingrid.backends import inventory_of
from traingrid.kubernetes.client import JOB, MPI_JOB, POD, Kind
from traingrid.ledger.user_requests import CANCEL_ALL


def until_training(line: Line) -> Any:
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training")
    except BaseException:
        child.kill()
        raise
    return child


def kill(child: Any) -> None:
    child.kill()
    child.communicate()


def test_the_next_child_continues_a_training_job_whose_annotations_another_program_overwrote(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 20})
    kill(until_training(line))
    overwritten = {"traingrid/fingerprint": "x", "traingrid/tags": "{}"}
    account.cluster.patch(JOB, f"{line.name}-1", {"metadata": {"annotations": overwritten}})
    code, output = ended(line.child())
    assert (code, line.item().state, line.item().attempt) == (0, "Completed", 1), output
    assert violations(account, line) == []


@pytest.mark.parametrize("stops", ["sweep", "command"])
@pytest.mark.parametrize("reason", ["", "wrong data"])
def test_a_stopped_line_does_not_keep_the_reason_of_its_suspension(
    account: ClusterAccount, request: pytest.FixtureRequest, reason: str, stops: str
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600})
    child = until_training(line)
    try:
        account.cluster.patch(JOB, f"{line.name}-1", {"spec": {"suspend": True}})
        wait_until(lambda: "its object is suspended" in line.item().reason)
    finally:
        kill(child)
    account.ledger.request_cancel(line.submission, CANCEL_ALL, {"by": "Ada", "reason": reason})
    if stops == "command":
        inventory = inventory_of(account.deployment, OTHER)
        assert [inventory.stop(job) for job in inventory.listed("InProgress", line.submission)] == [True]

    def is_stopped() -> bool:
        account.reconciler().run_pass()
        return line.item().state == "Stopped"

    wait_until(is_stopped)
    assert line.item().reason == (f"Cancelled by Ada: {reason}" if reason else "Cancelled by Ada")
    assert violations(account, line) == []


def test_an_object_that_is_gone_is_recorded_at_once(account: ClusterAccount, request: pytest.FixtureRequest) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600})
    child = until_training(line)
    began = time.monotonic()
    account.cluster.patch(JOB, f"{line.name}-1", {"metadata": {"finalizers": None}})
    account.cluster.delete(JOB, f"{line.name}-1")
    code, output = ended(child)
    assert (code, line.item().state, line.item().failure) == (1, "Failed", "deleted"), output
    assert time.monotonic() - began < 20
    wait_until(lambda: not pods(account, line))
    assert objects(account, line) == []


@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_pods_whose_object_is_gone_are_reported_by_name_and_stopped(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any
) -> None:
    hosts = {"instance_count": 2, "launcher": "none"} if kind == "mpijob" else {}
    line = submitted(account, request, eks_kind=kind, hyperparameters={"seconds": 600}, **hosts)
    kill(until_training(line))
    orphan(account, line, MPI_JOB if kind == "mpijob" else JOB)
    (violation,) = [found for found in violations(account, line) if line.name in found]
    assert all(pod["metadata"]["name"] in violation for pod in pods_of(account, line)), violation
    done = account.reconciler().run_pass()
    assert done.stopped == [f"{line.name}-1"]
    wait_until(lambda: not pods_of(account, line))

    def has_ended() -> bool:
        account.reconciler().run_pass()
        return line.item().state == "Failed"

    wait_until(has_ended)
    assert line.item().failure == "deleted"
    assert violations(account, line) == []


def orphan(account: ClusterAccount, line: Line, kind: Kind) -> None:
    """Delete the object of a line's first attempt as a person may, and every label and annotation of its pods."""
    account.cluster.patch(kind, f"{line.name}-1", {"metadata": {"finalizers": None}})
    account.cluster.delete(kind, f"{line.name}-1", propagation="Orphan")
    wait_until(lambda: account.cluster.find(kind, f"{line.name}-1") is None)
    for pod in pods_of(account, line):
        cleared = {part: dict.fromkeys(pod["metadata"].get(part) or ()) for part in ("labels", "annotations")}
        account.cluster.patch(POD, pod["metadata"]["name"], {"metadata": cleared})
