"""Pure functions of localcloud's compute: retries, statuses, the service model's checks, keys and images."""

from datetime import UTC, datetime
from typing import Any

import pytest

from localcloud.batch.retries import Outcome, problem_with, should_retry
from localcloud.ecr.process_images import ImageUri, InvalidImageError
from localcloud.sagemaker.metrics import Metrics
from localcloud.sagemaker.opt_ml import algorithm_error
from localcloud.sagemaker.status import Progress
from localcloud.sagemaker.transfer import relative_key
from localcloud.wire.service_model import violations

FAILED = Outcome(exit_code=75, reason=None, status_reason="Essential container in task exited")
NOT_PULLED = Outcome(exit_code=None, reason="CannotPullContainerError: x", status_reason="Task failed to start")


@pytest.mark.parametrize(
    ("rules", "outcome", "retried"),
    [
        ([], FAILED, True),
        ([{"onExitCode": "75", "action": "retry"}, {"onReason": "*", "action": "EXIT"}], FAILED, True),
        ([{"onExitCode": "7*", "action": "EXIT"}], FAILED, False),
        ([{"onExitCode": "5", "action": "EXIT"}], FAILED, True),
        ([{"onExitCode": "75", "onStatusReason": "Host*", "action": "EXIT"}], FAILED, True),
        ([{"onReason": "*", "action": "EXIT"}, {"onExitCode": "75", "action": "RETRY"}], FAILED, False),
        ([{"onReason": "CannotPull*", "action": "EXIT"}], NOT_PULLED, False),
        ([{"onStatusReason": "Task*", "action": "RETRY"}, {"onReason": "*", "action": "EXIT"}], NOT_PULLED, True),
        ([{"onExitCode": "1", "action": "RETRY"}, {"onReason": "*", "action": "EXIT"}], NOT_PULLED, False),
    ],
)  # fmt: skip
def test_the_first_rule_whose_conditions_all_match_decides(
    rules: list[dict[str, str]], outcome: Outcome, retried: bool
) -> None:
    assert should_retry({"attempts": 3, "evaluateOnExit": rules}, 2, outcome) is retried


def test_no_rule_exceeds_the_maximum_attempts() -> None:
    rules = [{"onReason": "*", "action": "RETRY"}]
    assert not should_retry({"attempts": 3, "evaluateOnExit": rules}, 3, FAILED)
    assert not should_retry(None, 1, FAILED)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"action": "EXIT"}, "at least one of"),
        ({"action": "MAYBE", "onReason": "*"}, "RETRY or EXIT"),
        ({"action": "EXIT", "onReason": "a*b"}, "asterisk only at its end"),
        ({"action": "EXIT", "onExitCode": "x"}, "digits"),
    ],
)
def test_an_invalid_retry_rule_is_reported(condition: dict[str, str], words: str) -> None:
    problem = problem_with({"attempts": 1, "evaluateOnExit": [condition]})
    assert problem is not None
    assert words in problem


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def test_a_stopped_training_job_stays_stopping_during_its_upload() -> None:
    progress = Progress(at(0))
    for second, step in enumerate(["Pending", "Training", "Stopping", "Uploading"], start=1):
        progress.advance(step, at(second))
    assert (progress.status, progress.secondary) == ("Stopping", "Uploading")
    progress.advance("Stopped", at(5))
    assert (progress.status, progress.is_final, progress.changed_at) == ("Stopped", True, at(5))


def test_an_ended_training_job_cannot_change_its_status() -> None:
    progress = Progress(at(0))
    progress.advance("Failed", at(1))
    with pytest.raises(ValueError, match="from Failed to Training"):
        progress.advance("Training", at(2))


@pytest.mark.parametrize(
    ("prefix", "key", "relative"),
    [
        ("", "a/b", "a/b"),
        ("data/", "data/a", "a"),
        ("data", "data/a/b", "a/b"),
        ("data/tr", "data/train/a", "train/a"),
        ("data/a", "data/a", "a"),
    ],
)
def test_an_objects_path_in_its_channel_is_the_rest_of_its_key(prefix: str, key: str, relative: str) -> None:
    assert relative_key(prefix, key) == relative


def test_a_metric_is_its_last_finite_number() -> None:
    metrics = Metrics([{"Name": "loss", "Regex": r"loss=(\S+)"}])
    for line in ("loss=2 loss=1.5", "loss=nan", "loss=inf", "loss=none"):
        metrics.read(line)
    assert [(entry["MetricName"], entry["Value"]) for entry in metrics.final()] == [("loss", 1.5)]


def test_a_failure_reason_is_truncated_before_the_exit_code() -> None:
    assert algorithm_error("no data", 3) == "AlgorithmError: no data, exit code: 3"
    long = algorithm_error("x" * 5000, 137)
    assert len(long) == 1024
    assert long.endswith("x, exit code: 137")


def test_an_image_uri_has_a_tag_a_digest_or_latest() -> None:
    base = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/grid/training"
    digest = f"sha256:{'0' * 64}"
    assert ImageUri.parse(base).tag == "latest"
    assert ImageUri.parse(f"{base}:v1").repository == "grid/training"
    assert (ImageUri.parse(f"{base}@{digest}").tag, ImageUri.parse(f"{base}@{digest}").digest) == (None, digest)
    with pytest.raises(InvalidImageError, match="not an image URI"):
        ImageUri.parse("ubuntu")


def test_the_service_model_reports_missing_members_wrong_types_and_small_numbers() -> None:
    request: dict[str, Any] = {
        "TrainingJobName": "x",
        "OutputDataConfig": {"S3OutputPath": 5},
        "RetryStrategy": {"MaximumRetryAttempts": 0},
        "Unknown": 1,
    }
    least = "Member must have value greater than or equal to 1"
    assert violations("sagemaker", "CreateTrainingJob", request) == [
        "Value null at 'roleArn' failed to satisfy constraint: Member must not be null",
        "Value '5' at 'outputDataConfig.s3OutputPath' failed to satisfy constraint: Member must be a string",
        f"Value '0' at 'retryStrategy.maximumRetryAttempts' failed to satisfy constraint: {least}",
    ]
