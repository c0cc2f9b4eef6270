"""Failures: classifies AWS's error codes and messages."""

import pytest

from traingrid.job.failures import FAILURES, failure_of_end, failure_of_refusal, may_try_again
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState

CAPACITY, ALGORITHM = FAILURES["capacity"], FAILURES["algorithm"]


@pytest.mark.parametrize(
    ("code", "message", "name"),
    [
        (
            "ResourceLimitExceeded",
            "The account-level service limit 'ml.p3.2xlarge for training job usage' is 0 Instances",
            "quota",
        ),
        ("ThrottlingException", "Rate exceeded", "throttled"),
        ("SlowDown", "", "throttled"),
        ("InternalFailure", "", "service_error"),
        ("ServiceUnavailable", "", "service_error"),
        ("", "", "service_error"),
        ("AccessDeniedException", "User is not authorized to perform: sagemaker:CreateTrainingJob", "permission"),
        ("ValidationException", "1 validation error detected: Value '0' at 'resourceConfig'", "invalid_request"),
        ("ValidationException", "Could not assume role arn:aws:iam::1:role/x.", "permission"),
        (
            "ValidationException",
            'No S3 objects found under S3 URL "s3://b/x". Please ensure that the role has "s3:ListBucket" permissions.',
            "data",
        ),
        (
            "ValidationException",
            "Invalid training image. Please provide a valid Amazon Elastic Container Registry path.",
            "image",
        ),
        (
            "ValidationException",
            "Cannot find the requested image: x Please check if your ECR repository exists and role has permissions",
            "image",
        ),
    ],
)
def test_a_refused_creation_is_known_by_its_code_and_text(code: str, message: str, name: str) -> None:
    assert failure_of_refusal(code, message).name == name


@pytest.mark.parametrize(
    ("state", "phase", "reason", "name"),
    [
        (JobState.FAILED, "Failed", "CapacityError: Unable to provision requested ML compute capacity.", "capacity"),
        (JobState.FAILED, "Failed", "AlgorithmError: No S3 objects found, exit code: 1", "algorithm"),
        (JobState.FAILED, "Failed", "InternalServerError: We encountered an internal error.", "internal_error"),
        (JobState.FAILED, "Failed", "ClientError: Data download failed:Unable to download s3://b/x", "data"),
        (JobState.FAILED, "Failed", "ClientError: Artifact upload failed:Unable to upload s3://b/x", "data"),
        (
            JobState.FAILED,
            "Failed",
            "ClientError: SageMaker was unable to assume the role 'arn:aws:iam::1:role/x'",
            "permission",
        ),
        (JobState.FAILED, "Failed", "ClientError: CannotStartContainerError. Please make sure the container", "image"),
        (JobState.FAILED, "Failed", "ClientError: Data download failed: s3://repository/kms/ecr/forbidden", "data"),
        (JobState.FAILED, "Failed", "", "invalid_request"),
        (JobState.STOPPED, "Stopped", "", "stopped_by_user"),
        (JobState.STOPPED, "MaxRuntimeExceeded", "", "max_runtime"),
        (JobState.STOPPED, "MaxWaitTimeExceeded", "", "spot_interruption"),
    ],
)
def test_an_end_is_known_by_its_status_and_reason(state: JobState, phase: str, reason: str, name: str) -> None:
    failure = failure_of_end(TrainingJobDescription(state=state, phase=phase, reason=reason))
    assert failure is not None
    assert failure.name == name


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.IN_PROGRESS, JobState.STOPPING])
def test_active_and_completed_jobs_have_no_failure(state: JobState) -> None:
    assert failure_of_end(TrainingJobDescription(state=state, phase="Interrupted")) is None


def test_every_failure_has_a_sentence_and_an_exit_code() -> None:
    for name, failure in FAILURES.items():
        assert failure.name == name
        assert failure.sentence.endswith(".")
        assert failure.exit_code in (1, 2, 75, 143)
        assert failure.retried or not failure.counted
        assert failure.retried or failure.next_step or name == "stopped_by_user"


@pytest.mark.parametrize(
    ("tried", "retries", "candidates", "again"),
    [
        (0, 0, 1, False),
        (0, 1, 1, True),
        (1, 1, 1, False),
        (1, 0, 3, True),
        (2, 0, 3, False),
        (2, 3, 3, True),
        (3, 3, 2, False),
    ],
)
def test_every_candidate_is_tried_once_before_retries_are_counted(
    tried: int, retries: int, candidates: int, again: bool
) -> None:
    assert may_try_again(CAPACITY, ["capacity"] * tried, retries, candidates) is again


@pytest.mark.parametrize(
    ("state", "phase", "stopped_for", "failure"),
    [
        (JobState.STOPPED, "Stopped", "", "stopped_by_user"),
        (JobState.STOPPED, "Stopped", "capacity", "capacity"),
        (JobState.STOPPED, "CapacityWaitExceeded", "", "capacity"),
        (JobState.STOPPED, "MaxRuntimeExceeded", "capacity", "max_runtime"),
        (JobState.FAILED, "Failed", "capacity", "algorithm"),
    ],
)
def test_a_stopped_job_has_the_failure_for_which_it_was_stopped(
    state: JobState, phase: str, stopped_for: str, failure: str
) -> None:
    found = failure_of_end(
        TrainingJobDescription(state=state, phase=phase, reason="AlgorithmError: rank 1 died"), stopped_for
    )
    assert found is FAILURES[failure]


def test_a_completed_job_has_no_failure_although_it_was_to_be_stopped() -> None:
    assert failure_of_end(TrainingJobDescription(state=JobState.COMPLETED, phase="Completed"), "capacity") is None


def test_an_unknown_failure_of_an_earlier_attempt_is_counted() -> None:
    assert may_try_again(CAPACITY, ["quota"], 1, 1)
    assert not may_try_again(CAPACITY, [""], 1, 1)


def test_a_training_program_that_fails_is_not_run_again() -> None:
    assert not may_try_again(ALGORITHM, [], 10, 10)
