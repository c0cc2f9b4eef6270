"""SageMaker backend: maps SageMaker's answers to states and errors."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.support.sagemaker_service import FakeSageMaker, answer
from tests.support.sample_deployment import SAMPLE
from traingrid.backends.base import LaunchError, LogUnreadableError
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.creation import DELAYS
from traingrid.backends.sagemaker.log import SageMakerLogs
from traingrid.backends.sagemaker.request import training_job_request
from traingrid.backoff import OUTAGE_CAP, backoff_seconds
from traingrid.grid.deployment import Deployment
from traingrid.job.failures import (
    CONFLICT,
    INVALID_REQUEST,
    OTHER_REQUEST,
    PERMISSION,
    PERMISSION_DELAY,
    QUOTA,
    SERVICE_ERROR,
    THROTTLED,
    Failure,
)
from traingrid.job.job import Job
from traingrid.job.ownership import tags_of
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.names import TAG_FINGERPRINT

NAME = "traingrid-0123abcd-0-1"
LOST = ReadTimeoutError(endpoint_url="https://api.sagemaker.us-east-1.amazonaws.com")


@pytest.fixture
def service() -> FakeSageMaker:
    return FakeSageMaker()


@pytest.fixture
def backend(aws: None, deployment: Deployment, service: FakeSageMaker) -> SageMaker:
    return SageMaker(deployment, "us-east-1", lambda *_: service, lambda *_: service)


@pytest.fixture
def job(deployment: Deployment) -> Job:
    return jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")[0]


def test_a_job_is_created_once_and_then_attached_to(backend: SageMaker, service: FakeSageMaker, job: Job) -> None:
    assert backend.start(NAME, job, {}) is None
    seen = backend.start(NAME, job, {})
    assert seen is not None
    assert seen.phase == "Training"
    assert list(service.jobs) == [NAME]


def test_a_training_job_is_created_with_the_tags_that_its_cost_is_allocated_by(
    backend: SageMaker, service: FakeSageMaker, job: Job, tags: dict[str, str]
) -> None:
    forged = {"cost-centre": "4711", "traingrid:grid": "somebody-elses"}
    backend.start(NAME, job.model_copy(update={"tags": forged}), tags)
    created = {tag["Key"]: tag["Value"] for tag in service.jobs[NAME]["Tags"]}
    assert created["cost-centre"] == "4711"
    assert {key: created[key] for key in ("traingrid:grid", "traingrid:submission", "traingrid:job")} == {
        "traingrid:grid": "traingrid",
        "traingrid:submission": "0123abcd",
        "traingrid:job": str(job.index),
    }


@pytest.mark.parametrize("error", [LOST, answer("InternalFailure"), answer("ServiceUnavailable")])
@pytest.mark.parametrize("unseen", [0, 2, 4])
def test_a_job_with_a_failed_reply_is_attached_to_once_visible(
    backend: SageMaker, service: FakeSageMaker, job: Job, error: Exception, unseen: int
) -> None:
    service.error, service.creates_before_error, service.unseen = error, True, unseen + 1
    while service.unseen > 0:  # one call before the creation, one after it
        if service.unseen > 1:
            with pytest.raises(LaunchError) as refused:
                backend.start(NAME, job, {})
            assert (refused.value.failure, refused.value.unresolved) == (SERVICE_ERROR, True)
        else:
            assert backend.start(NAME, job, {}) is not None
    assert list(service.jobs) == [NAME]


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (answer("ValidationException"), (INVALID_REQUEST, False)),
        (answer("AccessDeniedException"), (PERMISSION_DELAY, False)),
        (answer("ResourceLimitExceeded"), (QUOTA, False)),
        (answer("ThrottlingException"), (THROTTLED, False)),
        (answer("InternalFailure"), (SERVICE_ERROR, True)),
        (LOST, (SERVICE_ERROR, True)),
    ],
)
def test_a_refusal_is_distinguished_from_a_delay(
    backend: SageMaker, service: FakeSageMaker, job: Job, error: Exception, meaning: tuple[Failure, bool]
) -> None:
    service.error = error
    with pytest.raises(LaunchError, match=NAME) as refused:
        backend.start(NAME, job, {})
    assert (refused.value.failure, refused.value.unresolved) == meaning


@pytest.mark.parametrize("code", ["AccessDeniedException", "ValidationException"])
def test_a_missing_permission_is_retried_until_iam_has_certainly_distributed_it(
    backend: SageMaker, service: FakeSageMaker, job: Job, code: str
) -> None:
    message = "Could not assume role arn:aws:iam::123456789012:role/traingrid-execution-us-east-1."
    service.error = ClientError({"Error": {"Code": code, "Message": message}}, "CreateTrainingJob")
    failures = []
    for _ in range(DELAYS + 2):
        with pytest.raises(LaunchError) as refused:
            backend.start(NAME, job, {})
        failures.append(refused.value.failure)
    assert failures == [PERMISSION_DELAY] * DELAYS + [PERMISSION] * 2
    assert sum(backoff_seconds(tries, OUTAGE_CAP) for tries in range(1, DELAYS + 1)) >= 30
    assert (PERMISSION_DELAY.retried, PERMISSION_DELAY.counted) == (True, False)
    service.error = None
    assert backend.start(NAME, job, {}) is None


def test_a_refusal_ends_with_one_full_stop(backend: SageMaker, service: FakeSageMaker, job: Job) -> None:
    for message in ("no such image", "no such image."):
        service.error = ClientError({"Error": {"Code": "ValidationException", "Message": message}}, "CreateTrainingJob")
        with pytest.raises(LaunchError, match=r"ValidationException: no such image\.(?!\.)"):
            backend.start(NAME, job, {})


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize(("error", "meaning"), [(answer("ThrottlingException"), THROTTLED), (LOST, SERVICE_ERROR)])
def test_the_caller_decides_when_to_check_an_unknown_creation(
    service: FakeSageMaker, job: Job, *, backend: SageMaker, error: Exception, meaning: Failure, sent: bool
) -> None:
    def describe_training_job(**_: str) -> dict[str, Any]:
        if sent and not service.jobs:
            raise answer("ValidationException", "DescribeTrainingJob")
        raise error

    service.describe_training_job = describe_training_job  # type: ignore[method-assign]  # replaced for the test
    service.error, service.creates_before_error = LOST, True
    with pytest.raises(LaunchError, match=NAME) as refused:
        backend.start(NAME, job, {})
    assert (refused.value.failure, refused.value.unresolved) == (meaning, True)
    assert bool(service.jobs) is sent


def test_expired_credentials_are_raised_to_the_caller(backend: SageMaker, service: FakeSageMaker, job: Job) -> None:
    def describe_training_job(**_: str) -> dict[str, Any]:
        raise answer("ExpiredTokenException")

    service.describe_training_job = describe_training_job  # type: ignore[method-assign]  # replaced for the test
    with pytest.raises(ClientError, match="ExpiredToken"):
        backend.start(NAME, job, {})


def test_a_job_with_our_name_but_not_our_tag_is_foreign(backend: SageMaker, service: FakeSageMaker, job: Job) -> None:
    other = job.model_copy(update={"hyperparameters": {"epochs": "1"}})
    service.jobs[NAME] = training_job_request(NAME, other, "arn:aws:iam::123456789012:role/other", {})
    with pytest.raises(LaunchError) as refused:
        backend.start(NAME, job, {})
    assert refused.value.failure is CONFLICT


@pytest.fixture
def tags(backend: SageMaker, job: Job) -> dict[str, str]:
    return tags_of("traingrid", "0123abcd", job.index, backend.fingerprint(NAME, job))


def test_a_job_described_in_another_form_is_recognised_by_its_tag(
    backend: SageMaker, service: FakeSageMaker, job: Job, tags: dict[str, str]
) -> None:
    backend.start(NAME, job, tags)
    assert backend.start(NAME, job, tags) == backend.describe(NAME)
    service.defaults = {"seed": "0"}
    seen = backend.start(NAME, job, tags)
    assert seen is not None
    assert (seen.identified_by_tag, seen.fingerprint) == (True, backend.fingerprint(NAME, job))
    assert list(service.jobs) == [NAME]


def test_our_job_with_another_request_differs_from_a_foreign_job(
    backend: SageMaker, service: FakeSageMaker, job: Job, tags: dict[str, str]
) -> None:
    other = job.model_copy(update={"hyperparameters": {"epochs": "1"}})
    theirs = backend.fingerprint(NAME, other)
    backend.start(NAME, other, tags | {TAG_FINGERPRINT: theirs})
    with pytest.raises(LaunchError, match=f"{theirs}, and this job's is {tags[TAG_FINGERPRINT]}") as refused:
        backend.start(NAME, job, tags)
    assert (refused.value.failure, refused.value.unresolved) == (OTHER_REQUEST, False)


def test_missing_tags_of_a_new_job_are_read_again(
    backend: SageMaker, service: FakeSageMaker, job: Job, tags: dict[str, str]
) -> None:
    backend.start(NAME, job, tags)
    service.defaults, service.knows_tags = {"seed": "0"}, False
    with pytest.raises(LaunchError, match=NAME) as refused:
        backend.start(NAME, job, tags)
    assert (refused.value.failure, refused.value.unresolved) == (SERVICE_ERROR, True)


def test_a_job_is_known_by_its_fingerprint_and_stopped_also_if_it_has_ended(
    backend: SageMaker, service: FakeSageMaker, job: Job
) -> None:
    backend.start(NAME, job, {"traingrid:job": "0"})
    seen = backend.describe(NAME)
    assert seen is not None
    assert seen.fingerprint == backend.fingerprint(NAME, job)
    for _ in range(2):
        backend.stop(NAME)
    assert service.status["TrainingJobStatus"] == "Stopping"


class FakeLogs:
    """A stream with an empty second page before a third one, as CloudWatch Logs can return."""

    pages: ClassVar = {None: ("one", "b"), "b": (None, "c"), "c": ("two", "d"), "d": (None, "d")}

    def get_log_events(self, **request: Any) -> dict[str, Any]:
        message, token = self.pages[request.get("nextToken")]
        return {"events": [{"timestamp": 0, "message": message}] if message else [], "nextForwardToken": token}

    def get_paginator(self, _name: str) -> "FakeLogs":
        return self

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"logStreams": [{"logStreamName": f"{NAME}/algo-1-1700000000"}]}]


def test_an_empty_page_of_a_log_is_not_its_end(deployment: Deployment) -> None:
    backend = SageMakerLogs(deployment, "us-east-1", lambda *_: FakeLogs())
    position: dict[str, str] = {}
    assert list(backend.log_lines(NAME, position)) == [("algo-1", "one"), ("algo-1", "two")]
    assert list(backend.log_lines(NAME, position)) == []


@pytest.mark.parametrize("error", [answer("ThrottlingException"), answer("AccessDeniedException"), LOST])
def test_reading_a_log_resumes_after_an_error(deployment: Deployment, error: Exception) -> None:
    logs: Any = FakeLogs()
    backend = SageMakerLogs(deployment, "us-east-1", lambda *_: logs)
    position: dict[str, str] = {}
    read: Callable[..., dict[str, Any]] = logs.get_log_events

    def fails_at_the_third_page(**request: Any) -> dict[str, Any]:
        if request.get("nextToken") == "c":
            raise error
        return read(**request)

    logs.get_log_events = fails_at_the_third_page
    lines = backend.log_lines(NAME, position)
    assert next(iter(lines)) == ("algo-1", "one")
    with pytest.raises(LogUnreadableError):
        list(lines)
    logs.get_log_events = read
    assert list(backend.log_lines(NAME, position)) == [("algo-1", "two")]
