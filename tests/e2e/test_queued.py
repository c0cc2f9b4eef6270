"""Queued lines end to end: a service queue in each Region, killed children, and one training job per line.

The training programs are stubs of localcloud's fault plan; all other programs are those of a deployment.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.faults.plan import CallFault, Capacity, CapacityQuota, Effect, EventFault, FaultPlan, Stub
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import control_plane, two_regions
from tests.e2e.submissions import ended, submit, until
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.ledger.damage import intact
from traingrid.submission.cancel import Canceller, CancelTarget
from traingrid.submission.retry import Retrier

GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1: {service_queue: {instances: 2}}
  eu-west-1: {service_queue: {quota_shares: {research: {ml.m5.large: 1}, production: {ml.m5.large: 1}}}}
shares: {research: 1, production: 4}
images:
  resnet: {repository: training, tag: "1"}
job:
  image: resnet
  instance_type: ml.m5.large
  launch: queued
  share: research
"""
REGIONS = ("us-east-1", "eu-west-1")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with two_regions(tmp_path_factory.mktemp("queued"), grid=GRID) as running:
        yield running


@pytest.fixture(scope="module")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    with control_plane(cloud) as made:
        for region in REGIONS:
            bucket = names.data_bucket("traingrid", made.deployment.account, region)
            for channel in ("train", "validation"):
                client("s3", region).put_object(Bucket=bucket, Key=f"x/{channel}/a", Body=b"a")
        yield made


@pytest.fixture(autouse=True)
def plan(cloud: LocalCloud) -> Iterator[Callable[..., None]]:
    """Return a function that sets the duration of trainings, and further faults."""

    def set_plan(seconds: float, **more: Any) -> None:
        cloud.faults.set(FaultPlan(stubs=(Stub(seconds=seconds),), **more))

    set_plan(0.5)
    yield set_plan
    cloud.faults.set(FaultPlan())


def manifest(plane: ControlPlane, *lines: str, columns: str = "") -> str:
    account = plane.deployment.account
    rows = [f"{region},s3://{names.data_bucket('traingrid', account, region)}/x{rest}" for region, _, rest in
            (line.partition("|") for line in lines)]  # fmt: skip
    return "\n".join([f"region,s3_uri{columns}", *rows]) + "\n"


def made_by_batch(cloud: LocalCloud, submission: str) -> list[str]:
    """Return the names of the training jobs that Batch created for a submission."""
    return [
        entry["parameters"]["TrainingJobName"]
        for entry in cloud.record.entries("sagemaker", "CreateTrainingJob")
        if f"/{submission}/" in entry["parameters"]["OutputDataConfig"]["S3OutputPath"]
    ]


def violations(plane: ControlPlane, cloud: LocalCloud, submission: str) -> list[str]:
    world = read_world(
        plane.deployment, submission=submission, details=True, at_rest=True, calls=cloud.record.entries()
    )
    return [str(violation) for violation in audit(world)]


def test_a_line_in_each_kind_of_queue_is_trained_and_recorded(plane: ControlPlane, cloud: LocalCloud) -> None:
    report = submit(plane, "queued.csv", manifest(plane, *(f"{region}|" for region in REGIONS)))
    assert report["state"] == "submitted", report
    status = ended(plane, report["submission"])
    assert [(job.region, job.state) for job in status.jobs] == [(region, "Completed") for region in REGIONS]
    made = made_by_batch(cloud, report["submission"])
    assert len(made) == 2
    assert all(name.startswith("AWSBatchtraingrid-") for name in made)
    items = list(intact(plane.ledger.jobs(report["submission"])))
    assert [item.training_job for item in items] == [
        names.training_job("traingrid", report["submission"], index, 1) for index in range(2)
    ]
    assert sorted(item.training_job_arn.rpartition("/")[2] for item in items) == sorted(made)
    assert all(item.service_job and item.artifact for item in items)
    assert violations(plane, cloud, report["submission"]) == []


def children(cloud: LocalCloud) -> list[int]:
    """Return the process ids of Batch's children, which are recognized by their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            environment = (entry / "environ").read_bytes() if b"batch_job" in command else b""
        except OSError:
            continue
        if cloud.endpoint_url.encode() in environment and b"AWS_BATCH_JOB_ID=" in environment:
            found.append(int(entry.name))
    return found


def test_a_killed_child_finds_its_service_job_again(
    plane: ControlPlane, cloud: LocalCloud, plan: Callable[..., None]
) -> None:
    """It is killed while its job is queued, and again while it trains; only children write to the ledger."""
    lost = EventFault(source="aws.batch", drop=1.0)
    plan(4.0, events=(lost,), quotas=(CapacityQuota(instance_type="ml.m5.large", instances=0),))
    submission = submit(plane, "killed.csv", manifest(plane, "us-east-1|"))["submission"]
    until(lambda: any(item.phase == "Queued" for item in intact(plane.ledger.jobs(submission))))
    first = plane.status(submission).jobs[0]
    assert (first.state, first.phase) == ("InProgress", "Queued")
    kill_all(cloud)
    plan(4.0, events=(lost,))
    until(lambda: len(made_by_batch(cloud, submission)) == 1 and any(children(cloud)))
    kill_all(cloud)
    status = ended(plane, submission)
    assert [job.state for job in status.jobs] == ["Completed"]
    assert len(made_by_batch(cloud, submission)) == 1
    submitted = [
        entry
        for entry in cloud.record.entries("batch", "SubmitServiceJob")
        if submission in entry["parameters"]["jobName"]
    ]
    assert len({entry["response"]["jobId"] for entry in submitted}) == 1
    assert violations(plane, cloud, submission) == []


def test_batch_waits_for_capacity_without_counting_an_attempt(
    plane: ControlPlane, cloud: LocalCloud, plan: Callable[..., None]
) -> None:
    plan(0.5, capacity=(Capacity(times=2),))
    submission = submit(plane, "scarce.csv", manifest(plane, "us-east-1|"))["submission"]
    (job,) = ended(plane, submission).jobs
    assert (job.state, job.attempt, job.region) == ("Completed", 1, "us-east-1")
    assert len(made_by_batch(cloud, submission)) == 3
    assert violations(plane, cloud, submission) == []


@pytest.mark.parametrize("effect", ["kill_before", "kill_after", "lose_reply", "error_after"])
def test_a_failed_submit_call_creates_only_one_training_job(
    plane: ControlPlane, cloud: LocalCloud, plan: Callable[..., None], effect: Effect
) -> None:
    plan(0.5, calls=(CallFault(effect=effect, service="batch", action="SubmitServiceJob", times=2),))
    submission = submit(plane, f"{effect}.csv", manifest(plane, "us-east-1|", "eu-west-1|"))["submission"]
    status = ended(plane, submission)
    assert [job.state for job in status.jobs] == ["Completed", "Completed"]
    assert len(cloud.faults.struck_calls()) == 2
    assert len(made_by_batch(cloud, submission)) == 2
    assert violations(plane, cloud, submission) == []


def kill_all(cloud: LocalCloud) -> None:
    killed = children(cloud)
    assert killed
    for child in killed:
        os.kill(child, signal.SIGKILL)
    until(lambda: not set(killed) & set(children(cloud)))


def test_an_end_is_recorded_without_a_child(plane: ControlPlane, cloud: LocalCloud, plan: Callable[..., None]) -> None:
    plan(5.0)
    submission = submit(plane, "unwatched.csv", manifest(plane, "eu-west-1|"))["submission"]
    until(lambda: [item.phase for item in intact(plane.ledger.jobs(submission))] == ["Training"])
    head = plane.ledger.submission(submission)
    assert head is not None
    plane.children.terminate(head.batch_job, "its host is gone")
    kill_all(cloud)
    assert plane.status(submission).jobs[0].state == "InProgress"
    until(lambda: plane.status(submission).jobs[0].state == "Completed")
    assert violations(plane, cloud, submission) == []


def test_a_retry_queues_a_failed_line_again(plane: ControlPlane, cloud: LocalCloud, plan: Callable[..., None]) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=0.5, outcome="Failed", reason="AlgorithmError: exit code 1"),)))
    submission = submit(plane, "failing.csv", manifest(plane, "us-east-1|"))["submission"]
    (failed,) = ended(plane, submission).jobs
    assert (failed.state, failed.reason) == ("Failed", "AlgorithmError: exit code 1")
    plan(0.5)
    retrier = Retrier(
        deployment=plane.deployment,
        ledger=plane.ledger,
        storage=plane.storage,
        batch=plane.batch,
        children=plane.children,
    )
    assert retrier.retry(submission, "Ada").indices == [0]
    (job,) = ended(plane, submission).jobs
    assert (job.state, job.attempt) == ("Completed", 2)
    assert len(made_by_batch(cloud, submission)) == 2
    assert violations(plane, cloud, submission) == []


def terminated(cloud: LocalCloud) -> set[str]:
    """Return the ids of the service jobs for which a termination was accepted."""
    return {entry["parameters"]["jobId"] for entry in cloud.record.entries("batch", "TerminateServiceJob")}


def test_a_cancel_ends_queued_and_training_jobs(
    plane: ControlPlane, cloud: LocalCloud, plan: Callable[..., None]
) -> None:
    plan(120.0)
    lines = ("us-east-1|,2", "us-east-1|,2", "eu-west-1|,1")  # either of the first two may train first
    submission = submit(plane, "cancelled.csv", manifest(plane, *lines, columns=",instance_count"))["submission"]

    def phases() -> list[str]:
        return sorted(job.phase for job in plane.status(submission).jobs)

    until(lambda: phases() == ["Queued", "Training", "Training"])
    canceller = Canceller(
        deployment=plane.deployment, ledger=plane.ledger, children=plane.children, storage=plane.storage
    )
    before = terminated(cloud)
    report = canceller.cancel(CancelTarget(submission=submission, by="Ada", reason="wrong data"))
    assert report.errors == {}
    status = ended(plane, submission)
    assert [job.state for job in status.jobs] == ["Stopped"] * 3
    assert len(terminated(cloud) - before) == 3, "by the cancel, or by a child that read the recorded cancel first"
    assert len(made_by_batch(cloud, submission)) == 2, "the queued line never trained"
    time.sleep(1)
    assert violations(plane, cloud, submission) == []


def test_the_reconciler_stops_cancelled_jobs_and_closes_unwatched_lines(
    plane: ControlPlane, cloud: LocalCloud, plan: Callable[..., None]
) -> None:
    plan(120.0, events=(EventFault(source="aws.batch", drop=1.0),))
    submission = submit(plane, "forgotten.csv", manifest(plane, "us-east-1|"))["submission"]
    until(lambda: [item.phase for item in intact(plane.ledger.jobs(submission))] == ["Training"])
    plane.ledger.request_cancel(submission, "all", {"by": "Ada"})
    head = plane.ledger.submission(submission)
    assert head is not None
    kill_all(cloud)
    plane.children.terminate(head.batch_job, "its host is gone")
    until(lambda: run_pass(plane)["stopped"] != [])
    until(lambda: bool(run_pass(plane)["recorded"]) or plane.status(submission).jobs[0].state == "Stopped")
    assert plane.status(submission).jobs[0].state == "Stopped"
    assert violations(plane, cloud, submission) == []


def run_pass(plane: ControlPlane) -> dict[str, Any]:
    from traingrid.reconciler.reconciler import Reconciler  # noqa: PLC0415  # only this test needs it

    return vars(Reconciler.of(plane.deployment, grace_seconds=0.0).run_pass())
