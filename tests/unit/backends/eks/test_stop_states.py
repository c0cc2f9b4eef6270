"""Stop: the states of training jobs that were cancelled, deleted, or waited too long to start."""

import pytest

from tests.support.eks_jobs import NAME, at, found, pod
from tests.unit.backends.eks.pods import FAILED, End, check_end, failed, late
from traingrid.backends.eks.state import describe_cluster_job

ENDS: dict[str, End] = {
    "cancelled": (
        found(deleted=at(40), annotations={"traingrid/stopped-for": "cancel"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
    "cancelled, and its pod failed because of it": (
        found(failed(code=143), deleted=at(40), conditions=FAILED, annotations={"traingrid/stopped-for": "cancel"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
    "deleted by a person": (
        found(deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster, but not by traingrid.",
    ),
    "failed before it was deleted": (
        found(failed(text="own"), conditions=FAILED, deleted=at(90)),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "waited too long for capacity": (
        found(deleted=at(40), annotations={"traingrid/stopped-for": "capacity"}),
        "Stopped",
        "capacity",
        "It was stopped after its capacity_wait.",
    ),
    "waited too long for capacity, with the reason of the wait": (
        found(
            deleted=at(40),
            annotations={"traingrid/stopped-for": "capacity", "traingrid/stopped-because": "It waits in a queue."},
        ),
        "Stopped",
        "capacity",
        "It was stopped after its capacity_wait. Until then: It waits in a queue.",
    ),
    "stopped for its deadline": (
        found(deleted=at(40), annotations={"traingrid/stopped-for": "deadline"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
    "failed by itself before it was stopped for its deadline": (
        found(
            failed(text="own"), conditions=FAILED, deleted=at(400), annotations={"traingrid/stopped-for": "deadline"}
        ),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "image was never pulled": (
        found(
            deleted=at(40),
            annotations={"traingrid/stopped-for": "image", "traingrid/stopped-because": "ClientError: x: not found"},
        ),
        "Failed",
        "image",
        "ClientError: x: not found",
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_recorded_reason_of_the_stop_decides(end: End) -> None:
    check_end(end)


def test_a_deleted_training_job_is_stopping_until_its_pods_are_gone() -> None:
    seen = describe_cluster_job(found(pod(), deleted=at(40)))
    assert (seen.state, seen.phase) == ("Stopping", "Stopping")


def test_a_stopped_training_job_whose_pods_are_gone_has_trained_since_its_start() -> None:
    started = {"traingrid/started-at": at(10), "traingrid/stopped-for": "cancel"}
    seen = describe_cluster_job(found(deleted=at(40), annotations=started))
    assert (seen.state, seen.training_seconds, seen.billable_seconds) == ("Stopped", 30, 30)


def test_a_stopped_training_job_is_billed_from_the_noted_start() -> None:
    noted = {"traingrid/stopped-for": "cancel", "traingrid/started-at": at(10)}
    assert describe_cluster_job(found(deleted=at(40), annotations=noted)).billable_seconds == 30


@pytest.mark.parametrize("reason", ["cancel", "capacity", "deadline"])
def test_a_model_that_is_uploaded_during_a_stop_is_kept_whatever_it_was_stopped_for(reason: str) -> None:
    noted = {"traingrid/stopped-for": reason}
    seen = describe_cluster_job(found(late(), conditions=FAILED, deleted=at(400), annotations=noted))
    assert (seen.state, seen.failure, seen.artifact) == ("Completed", "", "s3://out/model.tar.gz")
