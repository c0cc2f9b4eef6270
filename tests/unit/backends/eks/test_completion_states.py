"""Completion: the states of training jobs whose pods ended by themselves, also if they were disrupted meanwhile."""

import pytest

from tests.support.eks_jobs import NAME, at, found, terminated
from tests.unit.backends.eks.pods import (
    COMPLETE,
    FAILED,
    SUCCEEDED,
    SUCCESS,
    End,
    check_end,
    disrupted,
    failed,
    succeeded,
    with_proxy,
    worker,
)

ENDS: dict[str, End] = {
    "completed": (found(SUCCEEDED, conditions=COMPLETE), "Completed", "", ""),
    "MPIJob succeeded": (found(mpi=True, conditions=[{"type": "Succeeded"}]), "Completed", "", ""),
    "completed before a deletion": (found(SUCCEEDED, conditions=COMPLETE, deleted=at(70)), "Completed", "", ""),
    "a proxy failed after the training": (
        found(with_proxy(succeeded(), terminated(1, until=54), "Failed"), conditions=FAILED),
        "Completed",
        "",
        "",
    ),
    "a proxy of one host failed after the training": (
        found(with_proxy(succeeded(), terminated(1, until=54), "Failed"), failed(1, 3), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 3",
    ),
    "a command of the program is not in the image": (
        found(failed(code=127, text="train.sh: torchrunn: not found"), conditions=FAILED),
        "Failed",
        "command",
        "AlgorithmError: train.sh: torchrunn: not found, exit code: 127",
    ),
    "a proxy failed, and its pod was evicted": (
        found(with_proxy(succeeded(reason="Evicted"), terminated(1, until=54), "Failed"), conditions=FAILED),
        "Failed",
        "lost_node",
        "",
    ),
    "evicted, and ended without an error": (
        found(succeeded(conditions=disrupted(45), deleted=at(945), grace=900), conditions=COMPLETE),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: EvictionByEvictionAPI: Eviction API: evicting. Its",
    ),
    "evicted in the second of its end": (
        found(succeeded(conditions=disrupted(50)), conditions=COMPLETE),
        "Failed",
        "lost_node",
        "",
    ),
    "evicted while it uploaded": (
        found(succeeded(conditions=disrupted(51), deleted=at(951), grace=900), conditions=COMPLETE),
        "Completed",
        "",
        "",
    ),
    "deleted pod that ended without an error": (
        found(succeeded(deleted=at(940), grace=900), conditions=COMPLETE),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: it was deleted. Its program",
    ),
    "worker that the operator has deleted": (
        found(
            succeeded(), worker(deleted=at(52), train=terminated(143, until=53)), mpi=True, hosts=2, conditions=SUCCESS
        ),
        "Completed",
        "",
        "",
    ),
    "deleted pod that ended with an error": (
        found(failed(code=143, deleted=at(940), grace=900), conditions=FAILED),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was deleted while it trained.",
    ),
    "deleted after its error": (
        found(failed(code=1, text="own", deleted=at(960), grace=900), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: own, exit code: 1",
    ),
    "evicted worker": (
        found(succeeded(), worker(conditions=disrupted(40), train=terminated()), mpi=True, hosts=2, conditions=SUCCESS),
        "Failed",
        "lost_node",
        "",
    ),
    "noted disruption": (
        found(conditions=COMPLETE, annotations={"traingrid/disrupted": "The pod x was ended"}),
        "Failed",
        "lost_node",
        "The pod x was ended. Its program then ended without an error, perhaps too early.",
    ),
    "ended before a deletion that came before the condition": (
        found(succeeded(), conditions=COMPLETE, deleted=at(58)),
        "Completed",
        "",
        "",
    ),
    "ended by a deletion, and counted": (
        found(succeeded(deleted=at(940), grace=900), conditions=COMPLETE, deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster, but not by traingrid.",
    ),
    "ended by itself after a person's deletion": (found(succeeded(), deleted=at(40)), "Completed", "", ""),
    "ended before the deletion, and not counted": (
        found(succeeded(), deleted=at(51), annotations={"traingrid/stopped-for": "cancel"}),
        "Completed",
        "",
        "",
    ),
    "one of two ended by itself": (
        found(succeeded(), succeeded(1, deleted=at(940), grace=900), deleted=at(40), hosts=2),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster",
    ),
    "one of two is gone": (found(succeeded(), deleted=at(51), hosts=2), "Stopped", "stopped_by_user", "The Job"),
    "failed by itself after a person's deletion": (
        found(failed(text="own"), deleted=at(40)),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "stopped by the deletion": (
        found(failed(code=143, deleted=at(940), grace=900), deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster",
    ),
    "evicted after a person's deletion": (
        found(failed(code=143, conditions=disrupted(45)), deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster",
    ),
    "failed after a cancel": (
        found(failed(code=143), deleted=at(40), annotations={"traingrid/stopped-for": "cancel"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_end_of_the_training_decides(end: End) -> None:
    check_end(end)
