"""Start wait: every container that does not start has a sentence and a limit, also for unknown reasons."""

from typing import Any

import pytest

from tests.support.eks_jobs import NAME, at, found, pod, running, terminated
from traingrid.backends.eks.pods import seconds_of
from traingrid.backends.eks.start_wait import LIMIT_SECONDS, PATIENCE_SECONDS, start_wait
from traingrid.backends.eks.state import describe_cluster_job

PREPARED: dict[str, Any] = {"prepare": terminated(until=15)}
BOUND = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(5)}]
ATTACH = 'AttachVolume.Attach failed for volume "pvc-1": rpc error: DeadlineExceeded'
MOUNT = 'MountVolume.SetUp failed for volume "data-0" : rpc error: timed out waiting for the condition'
SANDBOX = 'plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container'


def waiting(reason: str = "", message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message} if reason else {}}


def event(reason: str, message: str, second: int = 30, uid: str = "uid-of-pod-0") -> dict[str, Any]:
    kind = "Normal" if reason in ("Scheduled", "Pulling", "Pulled") else "Warning"
    involved = {"kind": "Pod", "name": f"{NAME}-0", "uid": uid}
    return {
        "reason": reason,
        "message": message,
        "type": kind,
        "lastTimestamp": at(second),
        "involvedObject": involved,
    }


CREATING = pod(phase="Pending", prepare=waiting("PodInitializing"), train=waiting("PodInitializing"))
PULLING = pod(phase="Pending", **PREPARED, train=waiting("ContainerCreating"))
INJECTED = pod(phase="Pending", prepare=waiting("PodInitializing"))
INJECTED["status"]["initContainerStatuses"].insert(0, {"name": "vault-agent-init", "state": running()})

WAITS: dict[str, tuple[Any, list[Any], float, int, str, str]] = {
    "no node has accepted it": (
        pod(phase="Pending", startTime=None, conditions=BOUND),
        [],
        LIMIT_SECONDS,
        5,
        "not_started",
        f"The node node-1 has not begun to start the pod {NAME}-0",
    ),
    "created": (CREATING, [], LIMIT_SECONDS, 10, "not_started", "The container prepare waits (PodInitializing)"),
    "no reason": (
        pod(phase="Pending", **PREPARED, train=waiting()),
        [],
        LIMIT_SECONDS,
        15,
        "not_started",
        "The container train waits (no reason)",
    ),
    "pulled": (
        PULLING,
        [event("FailedMount", MOUNT, 12), event("Pulling", 'Pulling image "train:1"')],
        LIMIT_SECONDS,
        15,
        "not_started",
        'The container train waits (ContainerCreating): Pulling: Pulling image "train:1"',
    ),
    "a container of another program": (
        INJECTED,
        [],
        LIMIT_SECONDS,
        10,
        "not_started",
        "The container prepare waits (PodInitializing) for vault-agent-init, which is not of traingrid",
    ),
    "volume not mounted": (
        CREATING,
        [event("Scheduled", "Successfully assigned", 9), event("FailedMount", MOUNT)],
        PATIENCE_SECONDS,
        10,
        "not_started",
        f"The container prepare waits (PodInitializing): FailedMount: {MOUNT}",
    ),
    "volume not attached": (CREATING, [event("FailedAttachVolume", ATTACH)], PATIENCE_SECONDS, 10, "not_started", ""),
    "no address": (
        CREATING,
        [event("FailedCreatePodSandBox", SANDBOX)],
        PATIENCE_SECONDS,
        10,
        "not_started",
        f"The container prepare waits (PodInitializing): FailedCreatePodSandBox: {SANDBOX}",
    ),
    "an unknown event": (CREATING, [event("NewReason", "it is new")], PATIENCE_SECONDS, 10, "not_started", ""),
    "event of an earlier pod of this name": (
        CREATING,
        [event("FailedMount", MOUNT, uid="other")],
        LIMIT_SECONDS,
        10,
        "not_started",
        "",
    ),
    "image": (
        pod(phase="Pending", **PREPARED, train=waiting("ImagePullBackOff", "back-off")),
        [],
        PATIENCE_SECONDS,
        15,
        "image",
        "The image cannot be pulled: train:1: back-off",
    ),
    "missing secret": (
        pod(phase="Pending", **PREPARED, train=waiting("CreateContainerConfigError", 'secret "x" not found')),
        [],
        PATIENCE_SECONDS,
        15,
        "not_started",
        'The container train cannot be started (CreateContainerConfigError): secret "x" not found',
    ),
    "unknown reason": (
        pod(phase="Pending", prepare=waiting("NewReason")),
        [],
        PATIENCE_SECONDS,
        10,
        "not_started",
        "The container prepare cannot be started (NewReason): NewReason",
    ),
}


def seconds(second: int) -> float:
    return seconds_of(at(second)) or 0.0


@pytest.mark.parametrize(("made", "events", "limit", "since", "failure", "text"), WAITS.values(), ids=list(WAITS))
def test_a_container_that_does_not_start_has_a_sentence_and_a_limit(  # noqa: PLR0917  # the columns
    made: Any, events: list[Any], limit: float, since: int, failure: str, text: str
) -> None:
    wait = start_wait(found(made, events=events))
    assert wait
    assert wait.text.startswith(text)
    assert (wait.since, wait.limit, wait.failure) == (seconds(since), limit, failure)
    assert not wait.is_over(seconds(since) + limit - 1)
    assert wait.is_over(seconds(since) + limit)
    assert f"for longer than the limit of {limit // 60:.0f} minutes" in wait.end


@pytest.mark.parametrize(
    "one",
    [
        found(pod(prepare=running(), train=waiting("PodInitializing"))),
        found(pod(**PREPARED, train=running(), results=waiting("CrashLoopBackOff"))),
        found(pod(phase="Pending", scheduled=False, startTime=None)),
        found(pod(phase="Pending", prepare=waiting("ContainerCreating"), deleted=at(30))),
        found(CREATING, suspend=True),
        found(CREATING, deleted=at(30)),
        found(CREATING, conditions=[{"type": "Failed", "lastTransitionTime": at(60)}]),
        found(),
    ],
    ids=["prepares", "trains", "no node", "pod deleted", "suspended", "deleted", "failed", "no pods"],
)
def test_other_training_jobs_do_not_wait_for_a_start(one: Any) -> None:
    assert start_wait(one) is None


def test_the_host_that_waits_longest_is_reported() -> None:
    late = pod(1, phase="Pending", prepare=waiting("PodInitializing"), startTime=at(20))
    wait = start_wait(found(late, CREATING, hosts=2))
    assert wait
    assert wait.pod.host == 0


def test_a_failure_is_reported_before_a_longer_wait() -> None:
    failed = pod(1, phase="Pending", prepare=waiting("ErrImagePull", "not found"), startTime=at(20))
    wait = start_wait(found(CREATING, failed, hosts=2))
    assert wait
    assert wait.pod.host == 1


@pytest.mark.parametrize(("second", "shown"), [(69, False), (70, True)])
def test_a_wait_without_a_failure_is_shown_after_a_minute(second: int, shown: bool) -> None:
    seen = describe_cluster_job(found(CREATING), seconds(second))
    assert (seen.state, seen.phase, bool(seen.reason)) == ("InProgress", "Starting", shown)
    assert not shown or "The training job is stopped after 60 minutes" in seen.reason
    assert not shown or f"`kubectl describe pod {NAME}-0 -n traingrid` shows more." in seen.reason


def test_a_wait_with_a_failure_is_shown_at_once() -> None:
    seen = describe_cluster_job(found(CREATING, events=[event("FailedMount", MOUNT)]), seconds(11))
    assert "FailedMount" in seen.reason
    assert "The training job is stopped after 10 minutes" in seen.reason
