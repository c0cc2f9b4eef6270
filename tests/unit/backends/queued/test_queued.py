"""Queued jobs: training jobs in a service queue are submitted once, found by name, and their states mapped."""

import json
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.support.module_time import replace_time
from tests.support.sample_deployment import SAMPLE
from tests.support.service_queue import FakeQueue, FakeTraining, answer
from traingrid.aws.clients import ClientFactory
from traingrid.backends import describing, inventory_of, launching
from traingrid.backends.base import LaunchError
from traingrid.backends.inventory import Details
from traingrid.backends.queued.backend import Queued, QueuedOrDirect
from traingrid.backends.queued.inventory import QueuedInventory
from traingrid.backends.queued.request import MAX_PAYLOAD_BYTES
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.failures import CONFLICT, INVALID_REQUEST, PERMISSION_DELAY, SERVICE_ERROR, THROTTLED, Failure
from traingrid.job.job import Job
from traingrid.job.ownership import tags_of
from traingrid.job.state import JobState
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

NAME = "traingrid-0123abcd-0-1"
MADE = "AWSBatchtraingrid-0123abcd-0-19b2f08f911cf3dd794c1b3e72ae7ca5f"
LOST = ReadTimeoutError(endpoint_url="https://batch.us-east-1.amazonaws.com")


@pytest.fixture
def queues(deployment: Deployment) -> Deployment:
    settings = deployment.grid.model_dump(exclude_defaults=True)
    settings["regions"]["us-east-1"]["service_queue"] = {"instances": 4}
    settings["shares"] = {"research": 1}
    settings["job"] |= {"share": "research"}
    return replace(deployment, grid=GridSettings.model_validate(settings))


@pytest.fixture
def job(queues: Deployment) -> Job:
    return jobs_of_lines(parse(SAMPLE.encode(), queues), queues, "0123abcd")[0].model_copy(update={"priority": 7})


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


@pytest.fixture
def training() -> FakeTraining:
    return FakeTraining()


@pytest.fixture
def backend(aws: None, queues: Deployment, queue: FakeQueue, training: FakeTraining) -> Queued:
    make_client = clients(queue, training)
    return Queued(queues, "us-east-1", make_client, make_client)


def clients(queue: FakeQueue, training: FakeTraining) -> ClientFactory:
    return lambda service, *_: queue if service == "batch" else training


def tags(backend: Queued, job: Job) -> dict[str, str]:
    return tags_of("traingrid", "0123abcd", 0, backend.fingerprint(NAME, job))


def test_a_jobs_name_is_its_client_token(backend: Queued, queue: FakeQueue, job: Job) -> None:
    assert backend.start(NAME, job, tags(backend, job)) is None
    (asked,) = queue.requests
    assert (asked["jobName"], asked["clientToken"], asked["jobQueue"]) == (NAME, NAME, "traingrid-training")
    assert (asked["shareIdentifier"], asked["schedulingPriority"]) == ("research", 7)
    assert asked["retryStrategy"] == {"attempts": 1}
    payload = json.loads(asked["serviceRequestPayload"])
    assert payload["TrainingJobName"] == NAME
    assert "Tags" not in payload
    assert asked["tags"] == tags(backend, job)


def test_a_job_is_submitted_once_and_then_found_by_name(backend: Queued, queue: FakeQueue, job: Job) -> None:
    backend.start(NAME, job, {})
    seen = backend.start(NAME, job, {})
    assert seen is not None
    assert (seen.state, seen.phase, seen.arn) == ("InProgress", "Queued", "")
    assert (seen.service_job, seen.facts()["service_job"]) == ("id-1", "id-1")
    assert len(queue.requests) == 1


@pytest.mark.parametrize("rejects", [False, True], ids=["answered as the first", "rejected"])
@pytest.mark.parametrize("unseen", [0, 1, 2])
def test_a_lost_reply_causes_no_second_service_job(
    backend: Queued, queue: FakeQueue, job: Job, unseen: int, *, rejects: bool
) -> None:
    queue.error, queue.rejects, queue.unseen = (
        LOST,
        rejects,
        1 + unseen,
    )  # one list call before the submission, one after it
    errors = []
    for _ in range(3):
        try:
            backend.start(NAME, job, {})
        except LaunchError as error:
            errors.append((error.failure, error.unresolved))
    assert set(errors) <= {(SERVICE_ERROR, True)}
    seen = backend.describe(NAME)
    assert seen is not None
    assert seen.phase == "Queued"
    assert len(queue.jobs) == 1


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("ClientException", (SERVICE_ERROR, True)),
        ("AccessDeniedException", (PERMISSION_DELAY, False)),
        ("TooManyRequestsException", (THROTTLED, False)),
    ],
)
def test_a_refusal_is_distinguished_from_a_delay(
    backend: Queued, queue: FakeQueue, job: Job, code: str, meaning: tuple[Failure, bool]
) -> None:
    queue.error, queue.takes = answer(code), False
    with pytest.raises(LaunchError, match="AWS Batch in us-east-1 rejected") as refused:
        backend.start(NAME, job, {})
    assert (refused.value.failure, refused.value.unresolved) == meaning


def test_a_permanent_refusal_ends_once_earlier_requests_are_visible(
    backend: Queued, queue: FakeQueue, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.error, queue.takes = answer("ClientException"), False
    found = []
    for now in (0.0, 30.0, 61.0):
        replace_time(monkeypatch, "traingrid.backends.queued.backend", monotonic=lambda now=now: 1000.0 + now)
        with pytest.raises(LaunchError) as refused:
            backend.start(NAME, job, {})
        found.append((refused.value.failure, refused.value.unresolved))
    assert found == [(SERVICE_ERROR, True), (SERVICE_ERROR, True), (INVALID_REQUEST, False)]


def test_a_service_job_with_another_request_is_not_attached_to(backend: Queued, queue: FakeQueue, job: Job) -> None:
    backend.start(NAME, job, {})
    other = job.model_copy(update={"instance_count": 2})
    with pytest.raises(LaunchError) as refused:
        backend.start(NAME, other, tags(backend, other))
    assert refused.value.failure is CONFLICT, "it bears no tag of this grid"


def test_a_request_that_has_grown_too_long_is_not_sent(backend: Queued, queue: FakeQueue, job: Job) -> None:
    long = job.model_copy(update={"hyperparameters": {f"x{number}": "y" * 2000 for number in range(6)}})
    with pytest.raises(LaunchError, match="a service queue accepts at most 10,240") as refused:
        backend.start(NAME, long, {})
    assert refused.value.failure is INVALID_REQUEST
    assert queue.requests == []
    assert MAX_PAYLOAD_BYTES == 10_240


def test_a_started_service_job_has_the_state_of_its_training_job(
    backend: Queued, queue: FakeQueue, training: FakeTraining, job: Job
) -> None:
    backend.start(NAME, job, {})
    queue.becomes(MADE, "SCHEDULED")
    seen = backend.describe(NAME)
    assert seen is not None
    assert seen.phase == "Starting", "Batch names it sooner than SageMaker shows it"
    training.put(MADE, "InProgress", "Downloading")
    seen = backend.describe(NAME)
    assert seen is not None
    assert (seen.state, seen.phase, seen.arn.rpartition("/")[2]) == ("InProgress", "Downloading", MADE)
    training.put(MADE, "Completed", "Completed", ModelArtifacts={"S3ModelArtifacts": "s3://out/model.tar.gz"})
    seen = backend.describe(NAME)
    assert seen is not None
    assert (seen.state, seen.artifact) == ("Completed", "s3://out/model.tar.gz")
    assert seen.fingerprint == backend.fingerprint(NAME, job), "as requested, even if SageMaker describes it otherwise"


@pytest.mark.parametrize("state", ["Failed", "Stopped"])
def test_a_failed_training_job_is_final_only_with_its_service_job(
    backend: Queued, queue: FakeQueue, training: FakeTraining, job: Job, state: str
) -> None:
    """Batch retries after missing capacity, or after preemption for another share."""
    backend.start(NAME, job, {})
    training.put(MADE, state, state, FailureReason="CapacityError: none")
    for status, phase in (("RUNNING", "Ending"), ("RUNNABLE", "Queued")):
        queue.becomes(MADE, status)
        seen = backend.describe(NAME)
        assert seen is not None
        assert (seen.state, seen.phase, seen.has_ended) == ("InProgress", phase, False)
    queue.becomes(MADE, "FAILED")
    ended = backend.describe(NAME)
    assert ended is not None
    assert (ended.state, ended.reason) == (state, "CapacityError: none")


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (
            {"statusReason": "Received status from SageMaker: ValidationException: no"},
            ("Failed", "ValidationException: no"),
        ),
        ({"isTerminated": True, "statusReason": "not wanted"}, ("Stopped", "not wanted")),
    ],
)
def test_a_service_job_that_never_trained_is_final(
    backend: Queued, queue: FakeQueue, job: Job, detail: dict[str, Any], expected: tuple[str, str]
) -> None:
    backend.start(NAME, job, {})
    queue.becomes("", "FAILED", **detail)
    seen = backend.describe(NAME)
    assert seen is not None
    assert (seen.state, seen.reason) == expected
    assert seen.has_ended


def test_a_training_job_is_found_when_its_arn_spells_its_name_in_lower_case(
    backend: Queued, listing: QueuedInventory, queue: FakeQueue, training: FakeTraining, job: Job
) -> None:
    backend.start(NAME, job, {})
    queue.becomes(MADE.lower(), "SUCCEEDED")
    (found,) = listing.listed("Completed")
    assert found.name == NAME
    for named in (MADE, MADE.lower()):
        training.jobs.clear()
        training.put(named, "Completed", "Completed", RoleArn=named)
        seen = backend.describe(NAME)
        assert seen is not None
        assert seen.arn.rpartition("/")[2] == named
        assert listing.details(found) == Details(state=JobState.COMPLETED, role=named)


def test_stopping_terminates_the_service_job(
    backend: Queued, queue: FakeQueue, training: FakeTraining, job: Job
) -> None:
    backend.stop(NAME)
    assert queue.terminated == []
    backend.start(NAME, job, {})
    training.put(MADE, "InProgress")
    queue.becomes(MADE, "RUNNING")
    backend.stop(NAME)
    assert (queue.terminated, training.stopped) == (["id-1"], [])


def test_queued_and_direct_jobs_are_found_by_name(
    listing: QueuedInventory, queue: FakeQueue, training: FakeTraining, backend: Queued, job: Job
) -> None:
    either = QueuedOrDirect(backend)
    backend.start(NAME, job, {})
    training.put("traingrid-0123abcd-1-1", "InProgress")
    found = [either.describe(f"traingrid-0123abcd-{index}-1") for index in range(3)]
    assert [seen and seen.phase for seen in found] == ["Queued", "Training", None]
    (queued,) = listing.listed(state="InProgress")
    for job_to_stop in (queued, replace(queued, name="traingrid-0123abcd-1-1")):
        assert listing.stop(job_to_stop)
    assert (queue.terminated, training.stopped) == (["id-1"], ["traingrid-0123abcd-1-1"])


def test_a_region_without_a_queue_needs_no_additional_calls(aws: None, queues: Deployment) -> None:
    assert type(describing(queues, "us-west-2", "sagemaker")) is SageMaker
    assert type(describing(queues, "us-east-1", "sagemaker")) is QueuedOrDirect
    assert type(inventory_of(queues, "us-east-1")) is QueuedInventory
    assert not isinstance(inventory_of(queues, "us-west-2"), QueuedInventory)


def test_a_child_uses_the_launch_of_its_line(aws: None, queues: Deployment) -> None:
    assert type(launching(queues, "us-east-1", "sagemaker", "direct")) is SageMaker
    assert type(launching(queues, "us-east-1", "sagemaker", "queued")) is Queued
    with pytest.raises(UsageError, match="us-west-2, which has no service queue"):
        launching(queues, "us-west-2", "sagemaker", "queued")


@pytest.fixture
def listing(aws: None, queues: Deployment, queue: FakeQueue, training: FakeTraining) -> QueuedInventory:
    made = inventory_of(queues, "us-east-1", clients(queue, training))
    assert isinstance(made, QueuedInventory)
    return made


def test_a_waiting_job_is_listed_as_in_progress(
    listing: QueuedInventory, backend: Queued, queue: FakeQueue, job: Job
) -> None:
    backend.start(NAME, job, tags(backend, job))
    (found,) = listing.listed(state="InProgress")
    assert (found.name, found.line, found.state, found.created_at) == (NAME, ("0123abcd", 0), "InProgress", 1000.0)
    assert list(listing.listed(state="InProgress", submission="0123abcd")) == [found]
    assert list(listing.listed(submission="ffffffff")) == []
    assert list(listing.listed(state="Stopping")) == []
    assert listing.has_our_tag(found)
    assert listing.stop(found)
    assert queue.terminated == ["id-1"]
    queue.becomes("", "FAILED", isTerminated=True, stoppedAt=1_005_000)
    assert list(listing.listed(state="InProgress")) == []
    (ended,) = listing.listed()
    assert (ended.state, ended.ended_at) == ("Stopped", 1005.0)


def test_a_terminating_service_job_is_stopping(
    listing: QueuedInventory, backend: Queued, queue: FakeQueue, job: Job
) -> None:
    backend.start(NAME, job, {})
    queue.becomes("", "RUNNING", isTerminated=True)
    assert [found.state for found in listing.listed(state="Stopping")] == ["Stopping"]
    assert list(listing.listed(state="InProgress")) == []
    (found,) = listing.listed()
    assert not listing.has_our_tag(found), "it bears no tags at all"
    assert listing.details(found) == Details(state=JobState.STOPPING)
