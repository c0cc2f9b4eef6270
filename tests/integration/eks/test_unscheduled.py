"""EKS backend: the reason why a pod has no node, from the scheduler and from the cluster's autoscaler."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.eks.steps import start
from tests.support.eks_jobs import NAME, at
from traingrid.backends.eks.backend import Eks
from traingrid.kubernetes.client import EVENT, Client

NODES = "0/1 nodes are available"
TOO_SMALL = "1 Preemption is not helpful for scheduling"
FULL = "1 No preemption victims found for incoming pod"
POOL = 'Failed to schedule pod, incompatible with nodepool "default", daemonset overhead={"pods":"5"}, '
RESOURCES = 'requirements=kubernetes.io/os In [linux], resources={"ephemeral-storage":"200Gi"}'
UNFIT = "no instance type which met the scheduling requirements and the required offering had the required resources"
UNAVAILABLE = "no instance type which met the scheduling requirements and had enough resources, had a required offering"
LIMIT = 'all available instance types exceed limits for nodepool: "large"'
NEVER = "No node of the cluster can hold it, and the autoscaler can add none that can."
PRESENT = "No node of the cluster can hold it, even without other pods; an autoscaler may add one."
DISK = "cancel the line and submit it with a smaller volume_gb, or add nodes with larger disks."


@pytest.fixture
def report(client: Client) -> Callable[..., None]:
    """Return a function that adds an event of the pod, as a component of the cluster does."""

    def add(component: str, reason: str, message: str, second: int = 20, pod: str = f"{NAME}-0") -> None:
        involved = {"kind": "Pod", "apiVersion": "v1", "name": pod, "namespace": "default"}
        times = {"firstTimestamp": at(second), "lastTimestamp": at(second), "eventTime": None}
        kind = "Normal" if reason == "NotTriggerScaleUp" else "Warning"
        metadata = {"name": f"{pod}.{component.replace('/', '.')}.{reason.lower()}.{second}", "namespace": "default"}
        event = {"metadata": metadata, "involvedObject": involved, "reason": reason, "message": message, "type": kind}
        by = {"reportingComponent": component, "source": {"component": component}}
        client.create(EVENT, {"apiVersion": "v1", "kind": "Event", **event, **times, **by})

    return add


@pytest.fixture
def reason(eks: Eks, add_pod: Callable[..., None]) -> Callable[[str], str]:
    """Return a function that lets the scheduler refuse the pod, and returns the reason of the training job."""

    def described(preemption: str) -> str:
        start(eks)
        message = f"{NODES}: 1 Insufficient ephemeral-storage. preemption: {NODES}: {preemption}."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        add_pod(phase="Pending", scheduled=False, conditions=[condition], startTime=None)
        seen: Any = eks.describe(NAME)
        assert (seen.state, seen.phase, seen.facts()["reason"]) == ("InProgress", "Pending", seen.reason)
        assert seen.reason.startswith(f"The pod has no node: {NODES}: 1 Insufficient ephemeral-storage. ")
        assert seen.reason.endswith(f"`kubectl describe pod {NAME}-0 -n default` shows more.")
        return str(seen.reason)

    return described


@pytest.mark.parametrize(
    ("component", "kind", "message"),
    [
        ("karpenter", "FailedScheduling", f"{POOL}no instance type has enough resources, {RESOURCES}"),
        (
            "eks-auto-mode/compute",
            "FailedScheduling",
            f'{POOL}{UNFIT}, {RESOURCES}; incompatible with nodepool "gpu", did not tolerate taint nvidia.com/gpu',
        ),
        ("karpenter", "FailedScheduling", f"{POOL}no instance type met all requirements, {RESOURCES}"),
        (
            "cluster-autoscaler",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 Insufficient ephemeral-storage, 2 node(s) didn't match Pod's node affinity",
        ),
    ],
)
def test_a_pod_that_no_node_can_ever_hold_waits_with_the_reason_and_the_next_step(
    reason: Callable[[str], str], report: Callable[..., None], component: str, kind: str, message: str
) -> None:
    report(component, kind, message)
    text = reason(TOO_SMALL)
    assert f" {component}: {message.partition(', requirements=')[0]}" in text
    assert f" {NEVER} The line waits until that changes; otherwise, {DISK} " in text
    assert RESOURCES not in text


@pytest.mark.parametrize(
    ("component", "kind", "message"),
    [
        ("karpenter", "FailedScheduling", f"{POOL}no instance type has the required offering, {RESOURCES}"),
        (
            "karpenter",
            "FailedScheduling",
            f"{POOL}{UNAVAILABLE}, {RESOURCES}",
        ),
        (
            "karpenter",
            "FailedScheduling",
            f"{POOL}no instance type has enough resources, {RESOURCES}; {LIMIT}",
        ),
        ("karpenter", "Nominated", "Pod should schedule on: nodeclaim/default-1"),
        (
            "cluster-autoscaler",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 Insufficient ephemeral-storage, 1 max node group size reached",
        ),
        ("cluster-autoscaler", "TriggeredScaleUp", "pod triggered scale-up: [{large 0->1 (max: 2)}]"),
    ],
)
def test_a_wait_that_an_autoscaler_can_end_is_not_reported_as_endless(
    reason: Callable[[str], str], report: Callable[..., None], component: str, kind: str, message: str
) -> None:
    report("karpenter", "FailedScheduling", f"{POOL}no instance type has enough resources, {RESOURCES}", second=10)
    report(component, kind, message)
    text = reason(TOO_SMALL)
    assert f" {component}: {message.partition(', requirements=')[0]}" in text
    assert NEVER not in text
    assert f" {PRESENT} If none is added, {DISK} " in text


def test_a_pod_that_waits_for_other_pods_gets_no_advice(
    reason: Callable[[str], str], report: Callable[..., None]
) -> None:
    report("karpenter", "FailedScheduling", f"{POOL}no instance type has enough resources", pod="another")
    report("default-scheduler", "FailedScheduling", f"{NODES}: 1 Insufficient ephemeral-storage.")
    report("kubelet", "Failed", "no instance type has enough resources")
    text = reason(FULL)
    assert "cancel the line" not in text
    assert text.count("Insufficient ephemeral-storage") == 1
