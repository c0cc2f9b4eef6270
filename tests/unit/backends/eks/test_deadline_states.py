"""Deadline: the states of training jobs at their maximum runtime, whose model may be uploaded after it."""

import pytest

from tests.support.eks_jobs import NAME, at, found, pod, terminated
from tests.unit.backends.eks.pods import FAILED, End, check_end, disrupted, failed, late, succeeded, worker
from traingrid.backends.eks.state import describe_cluster_job

ENDS: dict[str, End] = {
    "maximum runtime": (
        found(pod(phase="Failed", reason="DeadlineExceeded", train=terminated(143)), conditions=FAILED),
        "Stopped",
        "max_runtime",
        "",
    ),
    "uploaded after the deadline": (found(late(), conditions=FAILED), "Completed", "", ""),
    "one of two uploaded after the deadline": (
        found(late(), succeeded(1), conditions=FAILED, hosts=2),
        "Completed",
        "",
        "",
    ),
    "failed to upload after the deadline": (
        found(late(error="ClientError: Artifact upload failed:x"), conditions=FAILED),
        "Failed",
        "data",
        "ClientError: Artifact upload failed:x",
    ),
    "ended in the second of the deadline": (found(late(limit=40), conditions=FAILED), "Stopped", "max_runtime", ""),
    "uploaded after the deadline, and another host trained until it was deleted for that": (
        found(late(), failed(1, 143, until=57, deleted=at(956), grace=900), conditions=FAILED, hosts=2),
        "Stopped",
        "max_runtime",
        "",
    ),
    "uploaded after the deadline, and another host is gone": (
        found(late(), conditions=FAILED, hosts=2),
        "Stopped",
        "max_runtime",
        "",
    ),
    "uploaded after the deadline, and another host failed": (
        found(late(), failed(1, 2, "own", until=51), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: own, exit code: 2",
    ),
    "failed before the deadline, and uploaded after it": (
        found(late(train=terminated(3)), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 3",
    ),
    "preparation failed just before the deadline": (
        found(
            pod(
                phase="Failed",
                prepare=terminated(1, until=51, message="ClientError: Data download failed:NoSuchKey"),
                reason="DeadlineExceeded",
                limit=42,
            ),
            conditions=FAILED,
        ),
        "Failed",
        "data",
        "ClientError: Data download failed:NoSuchKey",
    ),
    "evicted before the deadline, and ended after it": (
        found(late(train=terminated(143, until=54), conditions=disrupted(45)), conditions=FAILED),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: EvictionByEvictionAPI",
    ),
    "evicted while it uploaded, and ended after the deadline": (
        found(late(conditions=disrupted(51), deleted=at(951), grace=900), conditions=FAILED),
        "Completed",
        "",
        "",
    ),
    "exceeded its runtime before it was evicted": (
        found(late(train=terminated(143, until=54), conditions=disrupted(53)), conditions=FAILED),
        "Stopped",
        "max_runtime",
        "",
    ),
    "launcher uploaded after the deadline, and the operator has deleted the worker": (
        found(
            late(),
            worker(deleted=at(956), grace=900, train=terminated(143, until=57)),
            mpi=True,
            hosts=2,
            conditions=FAILED,
        ),
        "Completed",
        "",
        "",
    ),
    "worker uploaded after the deadline, and the launcher failed": (
        found(failed(code=2, text="own"), worker(late(1)), mpi=True, hosts=2, conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: own, exit code: 2",
    ),
    "worker uploaded after the deadline, and the launcher is gone": (
        found(worker(late(1)), mpi=True, hosts=2, conditions=FAILED),
        "Failed",
        "lost_node",
        "A pod was deleted or lost with its node",
    ),
    "uploaded after the deadline, and then deleted by a person": (
        found(late(), deleted=at(56)),
        "Completed",
        "",
        "",
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_time_of_the_end_of_the_training_decides(end: End) -> None:
    check_end(end)


@pytest.mark.parametrize(("until", "state"), [(50, "Completed"), (54, "Stopped")], ids=["in time", "overtime"])
def test_a_model_that_was_uploaded_after_the_deadline_is_kept(until: int, state: str) -> None:
    seen = describe_cluster_job(found(late(train=terminated(until=until)), conditions=FAILED))
    assert (seen.state, seen.artifact) == (state, "s3://out/model.tar.gz")
