"""Ends of training jobs in a cluster of EKS: failures, cancels, deleted Jobs, and ends that no child watches."""

import pytest

from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from tests.integration.control_plane.account import OTHER
from tests.integration.control_plane.child_process import Line, ended
from tests.integration.control_plane.eks.account import TRAIN, ClusterAccount, objects, pods, released, submitted
from tests.integration.localcloud.compute import image, wait_until
from traingrid.aws.clients import client
from traingrid.backends import inventory_of
from traingrid.backends.training_job import is_ours
from traingrid.kubernetes.client import JOB
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.submission.cancel import CancelTarget

WITHOUT_HANDLER = "\n".join(line for line in TRAIN.splitlines() if "SIGTERM" not in line)


def test_a_failure_is_recorded_with_its_text(account: ClusterAccount, request: pytest.FixtureRequest) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 0, "fails": 1})
    code, output = ended(line.child())
    assert (code, line.item().failure) == (1, "algorithm"), output
    assert line.item().reason == "AlgorithmError: ValueError: the loss is NaN, exit code: 3"


def test_a_program_that_ends_at_once_is_recorded_with_its_exit_code(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    """The training starts when the sidecar handles SIGTERM, so the sidecar reports the end also of the fastest one."""
    ecr = client("ecr", OTHER)
    ecr.create_repository(repositoryName="ends-at-once")
    process_images.push(ecr, "ends-at-once", "v1", ProcessImage(command=("/bin/false",), working_directory="/"))
    line = submitted(account, request, image=account.image.replace("train-in-pods", "ends-at-once"), retries=0)
    code, output = ended(line.child())
    assert (code, line.item().failure, line.item().reason) == (1, "algorithm", "AlgorithmError: exit code: 1"), output


@pytest.mark.parametrize("program", [TRAIN, WITHOUT_HANDLER], ids=["handles SIGTERM", "without a handler"])
def test_a_cancelled_training_job_has_no_pods_when_its_end_is_recorded(
    account: ClusterAccount, request: pytest.FixtureRequest, program: str
) -> None:
    uri = account.image if program == TRAIN else image(client("ecr", OTHER), "without-a-handler", program)
    line = submitted(account, request, image=uri, hyperparameters={"seconds": 600})
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training")
        account.ledger.request_cancel(line.submission, CANCEL_ALL, {"by": "Ada", "reason": "wrong data"})
        code, output = ended(child)
    finally:
        child.kill()
    assert (code, line.item().state, line.item().failure) == (143, "Stopped", "stopped_by_user"), output
    assert pods(account, line) == []
    assert line.item().billable_seconds > 0
    wait_until(lambda: released(account, line))
    assert objects(account, line) == []


def training_without_child(account: ClusterAccount, request: pytest.FixtureRequest, seconds: int) -> Line:
    """Kill the child of a line as soon as its training job is recorded and in the cluster."""
    line = submitted(account, request, hyperparameters={"seconds": seconds})
    child = line.child()
    try:
        wait_until(lambda: line.training() and objects(account, line))
    finally:
        child.kill()
        child.communicate()
    return line


def test_the_cancel_command_stops_a_training_job_of_a_cluster(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = training_without_child(account, request, seconds=600)
    inventory = inventory_of(account.deployment, OTHER)
    (job,) = inventory.listed("InProgress", line.submission)
    assert (job.backend, is_ours(inventory, job, line.item()), inventory.stop(job)) == ("eks", True, True)
    wait_until(lambda: [listed.state for listed in inventory.listed(submission=line.submission)] == ["Stopped"])
    assert CancelTarget(submission=line.submission).scope == CANCEL_ALL


def test_the_reconciler_records_the_end_without_a_child(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = training_without_child(account, request, seconds=1)
    wait_until(lambda: objects(account, line)[0].get("status", {}).get("completionTime"))
    account.reconciler().run_pass()
    assert line.item().state == "Completed"
    wait_until(lambda: released(account, line))


def test_a_training_job_deleted_by_a_person_is_recorded_as_stopped(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600})
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training")
        account.cluster.delete(JOB, f"{line.name}-1")
        code, output = ended(child)
    finally:
        child.kill()
    assert (code, line.item().state) == (143, "Stopped"), output
    assert "was deleted in the cluster, but not by traingrid" in line.item().reason
    assert pods(account, line) == []
