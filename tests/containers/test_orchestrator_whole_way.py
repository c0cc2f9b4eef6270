"""End to end, with the orchestrator in its container: a manifest in S3, children in containers, a training job in each
Region, and the ledger."""

import json
from collections.abc import Iterator

import pytest

from localcloud.server.local_cloud import LocalCloud
from tests.containers.children import Children, container
from tests.containers.engine import podman
from tests.e2e.deployed import control_plane, two_regions
from tests.e2e.submissions import DIGITS, REGIONS, ended, submit, until
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.job.failures import TRAINED, TRY_AGAIN
from traingrid.job.state import UNLAUNCHED_STATES
from traingrid.submission.status import SubmissionStatus


@pytest.fixture(scope="module")
def children(orchestrator: str) -> Iterator[Children]:
    made = Children(orchestrator)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def cloud(children: Children, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with two_regions(tmp_path_factory.mktemp("cloud"), children.spawn) as running:
        yield running


@pytest.fixture(scope="module")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    with control_plane(cloud) as seen:
        yield seen


@pytest.fixture(scope="module")
def lines(plane: ControlPlane) -> list[str]:
    """One manifest line per Region, with its data."""
    return [
        f"{region},{upload_folder(plane.deployment, DIGITS / f'campaign-{number}', region)}\n"
        for number, region in enumerate(REGIONS, start=1)
    ]


@pytest.fixture(scope="module")
def trained(plane: ControlPlane, lines: list[str]) -> SubmissionStatus:
    """Two lines. The container of the second gets SIGTERM while its job trains, as when Fargate retires its host."""
    submission = submitted(plane, "digits.csv", lines)
    trains(plane, submission, 1)
    podman("kill", "--signal", "TERM", container(f"{plane.status(submission).batch_job}:1", 1))
    return ended(plane, submission)


def submitted(plane: ControlPlane, key: str, lines: list[str]) -> str:
    report = submit(plane, key, "".join(lines))
    assert report["state"] == "submitted", report
    return str(report["submission"])


def trains(plane: ControlPlane, submission: str, index: int) -> None:
    """Wait until a line's job trains; fail if it has already ended."""
    until(lambda: plane.status(submission).jobs[index].state not in UNLAUNCHED_STATES)
    assert plane.status(submission).jobs[index].state == "InProgress"


def test_each_line_trains_in_its_own_region(
    trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud, children: Children
) -> None:
    assert [(job.region, job.state) for job in trained.jobs] == [(region, "Completed") for region in REGIONS]
    assert trained.batch_state == "SUCCEEDED"
    tries = ((0, 1), (1, 1), (1, 2))
    assert sorted(children.started) == [container(f"{trained.batch_job}:{index}", number) for index, number in tries]
    assert children.remaining() == []
    world = read_world(
        plane.deployment, submission=trained.submission, details=True, at_rest=True, calls=cloud.record.entries()
    )
    assert [str(violation) for violation in audit(world)] == []


def test_a_terminated_container_is_retried_and_attaches_to_its_job(
    trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud
) -> None:
    attempts = [
        [attempt["container"]["exitCode"] for attempt in child["attempts"]]
        for child in plane.batch.children(trained.batch_job, 2)
    ]
    assert attempts == [[TRAINED], [TRY_AGAIN, TRAINED]]
    created = [
        entry["parameters"]["TrainingJobName"]
        for entry in cloud.record.entries()
        if entry["action"] == "CreateTrainingJob" and trained.submission in json.dumps(entry["parameters"])
    ]
    assert sorted(created) == sorted(job.training_job for job in trained.jobs)


def test_terminating_a_batch_job_stops_its_container_but_not_training(
    trained: SubmissionStatus, plane: ControlPlane, lines: list[str], children: Children
) -> None:
    submission = submitted(plane, "one.csv", lines[:1])
    trains(plane, submission, 0)
    job = plane.status(submission).batch_job
    client("batch", "us-east-1").terminate_job(jobId=job, reason="by hand")
    assert ended(plane, submission).jobs[0].state == "Completed"
    described = plane.batch.describe(job)
    assert described is not None
    assert (described["status"], described["statusReason"]) == ("FAILED", "by hand")
    assert described["container"]["exitCode"] == TRY_AGAIN
    assert container(job, 1) in children.started
    assert children.remaining() == []
