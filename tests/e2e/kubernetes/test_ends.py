"""One submission with a line for each way in which a training job of a cluster is interrupted, moves, or waits."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import traingrid as tg
from localcloud.faults.plan import Capacity, FaultPlan
from tests.e2e.deployed import ACCOUNT
from tests.e2e.kubernetes.world import JOBS, MPI, NOWHERE, OPTIONS, REGIONS, World, until
from tests.e2e.submissions import DIGITS
from tests.e2e.test_queued import violations
from traingrid import names
from traingrid.api.data import upload_folder

ENDLESS = 600
DELETED, CANCELLED, MOVED = range(3)
"""The indices of three lines."""


@dataclass
class Outcome:
    """The ended lines.

    Attributes:
        submission: The submission.
        shown: The output of kubectl while two lines trained: get and describe.
        overlaps: The pods that existed after the next training job of their line was created.
    """

    submission: tg.Submission
    shown: dict[str, str] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)

    def first(self, index: int) -> str:
        """Return the name of the training job of a line's first attempt."""
        return names.training_job("traingrid", self.submission.id, index, 1)


def lines(world: World) -> list[dict[str, Any]]:
    """Return the lines; `far` trains with TensorFlow, because a line with a program has no replicas."""
    digits = {region: str(upload_folder(world.plane.deployment, DIGITS / "campaign-1", region)) for region in REGIONS}
    scarce: dict[str, Any] = {"instance_type": "ml.m5.xlarge", "capacity_wait": "2s"}
    far = {"region": JOBS, "name": "far", "s3_uri": digits[JOBS], "replicas": {MPI: digits[MPI]}, "backend": "eks"}
    missing = f"{ACCOUNT}.dkr.ecr.{MPI}.amazonaws.com/traingrid/training:none"
    return [
        world.line(JOBS, "deleted", ENDLESS),
        world.line(JOBS, "cancelled", ENDLESS),
        world.line(JOBS, "moved", backend=["eks", "sagemaker"], **scarce),
        {**far, "hyperparameters": OPTIONS, **scarce},
        world.line(JOBS, "nowhere", instance_type=NOWHERE),
        world.line(MPI, "absent", backend="eks", image=missing),
        world.line(JOBS, "operator", eks_kind="mpijob"),
    ]


@pytest.fixture(scope="module")
def running(world: World) -> Iterator[Outcome]:
    """Submit the lines, and wait until the endless ones train."""
    world.cloud.faults.set(FaultPlan(capacity=(Capacity(region=JOBS, instance_type="m5.xlarge"),)))
    outcome = Outcome(world.submit(*lines(world)))

    def trains() -> bool:
        phases = {job.name: job.phase for job in outcome.submission.jobs}
        return [phases.get(name) for name in ("deleted", "cancelled")] == ["Training"] * 2

    until(trains)
    outcome.shown["get"] = world.kubectl(JOBS, "get", "jobs,pods,services")
    outcome.shown["describe"] = world.kubectl(JOBS, "describe", "job", outcome.first(DELETED))
    yield outcome
    world.cloud.faults.set(FaultPlan())


@pytest.fixture(scope="module")
def outcome(world: World, running: Outcome) -> Outcome:
    """Delete one Job with kubectl, cancel a line, and wait until all lines have ended that do not wait for a person."""
    submission = running.submission
    world.kubectl(JOBS, "delete", "job", running.first(DELETED), "--wait=false")
    world.traingrid("cancel", submission.id, "--index", str(CANCELLED), "--reason", "wrong data")
    first, second = (names.training_job("traingrid", submission.id, MOVED, attempt) for attempt in (1, 2))

    def settled() -> bool:
        if second in json.dumps(world.cloud.record.entries("sagemaker", "CreateTrainingJob")):
            pods = world.objects(JOBS, submission, "pods")
            running.overlaps += [name for pod in pods if (name := pod["metadata"]["name"]).startswith(first)]
        return all(job.ended or job.name in ("cancelled", "nowhere", "absent") for job in submission.jobs)

    until(settled)
    until(lambda: submission.jobs[CANCELLED].ended)  # its child records it, before the reconciler's next pass
    return running


@pytest.fixture(scope="module")
def ended(outcome: Outcome) -> tg.Submission:
    return outcome.submission


def test_kubectl_lists_and_describes_training_jobs(running: Outcome) -> None:
    name = running.first(DELETED)
    for kind in ("job.batch", "pod", "service"):
        assert f"{kind}/{name}" in running.shown["get"]
    assert re.search(rf"traingrid/submission=\s*{running.submission.id}", running.shown["describe"])
    assert "SuccessfulCreate" in running.shown["describe"]


def test_a_job_deleted_with_kubectl_is_recorded_as_stopped_by_a_person(world: World, ended: tg.Submission) -> None:
    job = ended.jobs[DELETED]
    assert (job.name, job.state, job.reason) == (
        "deleted",
        "Stopped",
        f"The Job {job.training_job} was deleted in the cluster, but not by traingrid.",
    )
    pods = json.loads(world.kubectl(JOBS, "get", "pods", "-l", f"traingrid/name={job.training_job}", "-o", "json"))
    assert pods["items"] == []


def test_a_cancelled_line_is_stopped(world: World, ended: tg.Submission) -> None:
    job = ended.jobs[CANCELLED]
    item = world.plane.ledger.job(ended.id, job.index)
    assert item
    assert (job.name, job.state, item.failure) == ("cancelled", "Stopped", "stopped_by_user")


def test_a_line_without_capacity_moves_to_the_next_backend_and_then_to_another_region(
    world: World, ended: tg.Submission
) -> None:
    jobs = {job.name: job for job in ended.jobs}
    items = {name: world.plane.ledger.job(ended.id, jobs[name].index) for name in ("moved", "far")}
    for name, (region, backend) in {"moved": (JOBS, "sagemaker"), "far": (MPI, "eks")}.items():
        item = items[name]
        assert item
        assert (item.state, item.region, item.backend, item.attempt) == ("Completed", region, backend, 2)
        (previous,) = item.tried
        assert (previous.region, previous.backend, previous.failure) == (JOBS, "eks", "capacity")
        shown = world.traingrid("describe", ended.id, str(jobs[name].index))
        assert f"{JOBS} eks  Stopped (capacity)" in shown
        reason = re.escape("Stopped (capacity): It was stopped after its capacity_wait.")
        assert re.search(rf"{reason}( Until then: The pod has no node: .*)?\n", shown)


def test_the_pods_of_a_moved_line_are_gone_before_its_next_training_job_exists(world: World, outcome: Outcome) -> None:
    submission = outcome.submission
    item = world.plane.ledger.job(submission.id, MOVED)
    assert item
    second = names.training_job("traingrid", submission.id, MOVED, 2)
    assert (item.tried[0].training_job, item.training_job) == (outcome.first(MOVED), second)
    assert outcome.overlaps == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", r"The pod has no node: .* `kubectl describe pod \S+ -n training` shows more\."),
        ("absent", r"The image cannot be pulled: .*/training:none: .* `kubectl describe pod \S+ -n traingrid` shows"),
    ],
)
def test_a_line_that_waits_shows_the_reason_and_a_command(
    world: World, ended: tg.Submission, name: str, reason: str
) -> None:
    until(lambda: re.match(reason, world.reasons(ended)[name]))
    assert re.search(reason, world.traingrid("status", ended.id))


def test_a_cluster_without_an_operator_fails_the_line_with_the_command_that_installs_it(
    world: World, ended: tg.Submission
) -> None:
    assert world.states(ended)["operator"] == "Failed"
    command = "`kubectl apply --server-side -f https://raw.githubusercontent.com/kubeflow"
    assert command in world.reasons(ended)["operator"]


def test_the_reconciler_releases_ended_objects_and_the_audit_finds_no_violation(
    world: World, ended: tg.Submission
) -> None:
    for name in ("nowhere", "absent"):
        (index,) = (job.index for job in ended.jobs if job.name == name)
        world.traingrid("cancel", ended.id, "--index", str(index))
    until(lambda: world.reconcile() and ended.status().ended)
    until(lambda: world.has_released(ended))
    assert violations(world.plane, world.cloud, ended.id) == []
    assert world.traingrid("audit", ended.id).endswith("duplicates 0, orphans 0, lost 0\n")
