"""Worker failure: an MPIJob is stopped only if neither the operator nor the launcher ends it."""

from typing import Any

import pytest

from tests.support.eks_jobs import NAME, at, found, pod, running, terminated
from traingrid.backends.eks.state import describe_cluster_job
from traingrid.backends.eks.worker_failure import worker_failure
from traingrid.job.failures import failure_of_end

COUNTED = {"replicaStatuses": {"Worker": {"failed": 1}}}
EVICTED = [
    {"type": "Failed", "lastTransitionTime": at(40), "reason": "MPIJobEvicted", "message": "1/1 workers are evicted"}
]
NO_DATA: dict[str, Any] = {"prepare": terminated(1, message="ClientError: Data download failed:NoSuchKey")}
WAITS, TRAINS = pod(prepare=running()), pod(prepare=terminated(until=15), train=running())
UNSCHEDULED = pod(phase="Pending", scheduled=False, startTime=None)


def worker(phase: str = "Failed", **more: Any) -> dict[str, Any]:
    made = pod(1, phase, **(more or NO_DATA))
    made["metadata"]["name"] = made["spec"]["hostname"] = f"{NAME}-worker-0"
    return made


@pytest.mark.parametrize("launcher", [WAITS, UNSCHEDULED, None], ids=["waits", "no node", "not created"])
def test_a_worker_that_fails_before_the_launcher_trains_stops_the_mpijob(launcher: Any) -> None:
    other = worker("Running", prepare=running())
    other["metadata"]["name"] = other["spec"]["hostname"] = f"{NAME}-worker-1"
    pods = [worker(), *([launcher] if launcher else [other])]
    failure = worker_failure(found(*pods, mpi=True, hosts=len(pods), status=COUNTED))
    assert failure
    assert (failure.failure, failure.reason) == ("data", "ClientError: Data download failed:NoSuchKey")


def test_an_mpijob_that_the_operator_fails_for_an_evicted_worker_is_stopped() -> None:
    message = "The node was low on resource: memory."
    lost = [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}]
    evicted = worker(reason="Evicted", message=message, conditions=lost, train=terminated(137))
    failure = worker_failure(found(TRAINS, evicted, mpi=True, hosts=2, conditions=EVICTED, status=COUNTED))
    assert failure
    assert (failure.failure, message in failure.reason) == ("lost_node", True)
    failure = worker_failure(found(TRAINS, mpi=True, hosts=2, conditions=EVICTED))
    assert failure, "its pod is gone"
    assert (failure.failure, failure.reason) == ("lost_node", "The cluster ended a pod: 1/1 workers are evicted")


@pytest.mark.parametrize(
    "one",
    [
        found(TRAINS, worker(), mpi=True, hosts=2, status=COUNTED),
        found(pod(phase="Failed", **NO_DATA), worker(), mpi=True, hosts=2, status=COUNTED),
        found(WAITS, worker("Running", prepare=running()), mpi=True, hosts=2),
        found(WAITS, worker(**NO_DATA, deleted=at(50)), mpi=True, hosts=2, status=COUNTED),
        found(WAITS, worker(), mpi=True, hosts=2, status=COUNTED, suspend=True),
        found(WAITS, worker(), mpi=True, hosts=2, status=COUNTED, deleted=at(50)),
        found(WAITS, worker(), hosts=2, status=COUNTED),
        found(
            WAITS,
            worker(),
            mpi=True,
            hosts=2,
            status={**COUNTED, "completionTime": at(60)},
            conditions=[{"type": "Succeeded", "lastTransitionTime": at(60)}],
        ),
    ],
    ids=["trains", "has failed", "no failure", "replaced", "suspended", "deleted", "Indexed Job", "completed"],
)
def test_other_training_jobs_are_not_stopped(one: Any) -> None:
    assert worker_failure(one) is None


@pytest.mark.parametrize("conditions", [(), EVICTED], ids=["deleted", "failed before"])
def test_the_noted_failure_is_the_end_when_all_pods_are_gone(conditions: Any) -> None:
    noted = {"traingrid/stopped-for": "data", "traingrid/stopped-because": "ClientError: no data"}
    seen = describe_cluster_job(found(mpi=True, hosts=2, conditions=conditions, deleted=at(50), annotations=noted))
    ended = failure_of_end(seen)
    assert (seen.state, seen.reason, ended.name if ended else "") == ("Failed", "ClientError: no data", "data")


def test_a_noted_overrun_is_not_a_failure() -> None:
    noted = {"traingrid/stopped-for": "max_runtime"}
    seen = describe_cluster_job(found(mpi=True, hosts=2, deleted=at(50), annotations=noted))
    assert (seen.state, seen.phase) == ("Stopped", "MaxRuntimeExceeded")
