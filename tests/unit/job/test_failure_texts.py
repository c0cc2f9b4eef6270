"""Failure texts: the classes of real texts of SageMaker, Batch and Kubernetes, from public records.

Each line of failure_texts.jsonl has the text, the class whose next step helps, that step in a few words, and the
source.
Account ids and names of roles are replaced, and lists are shortened.

    kind        the place of the text
    end         FailureReason of a training job, or statusReason of a service job
    refusal     the message of CreateTrainingJob's error with this code
    pod         status.message of a failed pod with this status.reason
    disruption  the reason of a pod's condition DisruptionTarget
    container   the message of a container that ended with this reason
    waiting     the message of a container that waits with this reason
    api         the message of a 403 of the API server
    child       the reason of a container that Fargate did not start for AWS Batch
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localcloud.batch.retries import MAX_ATTEMPTS, Outcome, should_retry
from tests.support.eks_jobs import NAME, REGION, at, found, pod, terminated
from traingrid.aws.error_codes import INVALID_CREDENTIAL_CODES
from traingrid.backends.base import LaunchError
from traingrid.backends.eks.access import Access
from traingrid.backends.eks.refusals import Refusals
from traingrid.backends.eks.start_wait import start_wait
from traingrid.backends.eks.state import describe_cluster_job
from traingrid.grid.eks import EksCluster
from traingrid.job import failures
from traingrid.job.failures import FAILURES, FOR_GOOD, INVALID_REQUEST, PERMISSION, failure_of_end, failure_of_refusal
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.kubernetes.errors import FORBIDDEN, ApiError

MIN_TEXTS = 60
TEXTS = [json.loads(line) for line in Path(__file__).with_name("failure_texts.jsonl").read_text().splitlines()]
ALGORITHM_ERRORS = [
    ("AlgorithmError: , exit code: 137", "memory"),
    ("AlgorithmError: Exit Code: 137", "memory"),
    ("AlgorithmError: , exit code: 1", "algorithm"),
    ("AlgorithmError: Exit Code: 1370", "algorithm"),
    ("AlgorithmError: , exit code: 127", "command"),
    ("AlgorithmError: Exit Code: 126", "command"),
    (
        "AlgorithmError: Rank 0 on algo-1 failed: ScriptError: train.sh ended with exit status 127., exit code: 1",
        "command",
    ),
    ("AlgorithmError: bash: nosuch: command not found, exit code: 1", "algorithm"),  # perhaps of a command before it
    (
        'AlgorithmError: ExecuteUserScriptError:\nErrorMessage "torch.cuda.OutOfMemoryError: CUDA out of memory.',
        "memory",
    ),
    ("AlgorithmError: Please use an instance type with more memory, or reduce the size of job data", "memory"),
    ("AlgorithmError: CannotStartContainerError. Please make sure the container can be run", "image"),
    ("AlgorithmError: cannot find s3://bucket/key", "algorithm"),
]
BROKEN_RULES = [
    *(
        f"1 validation error detected: Value 'x' at '{name}' failed to satisfy constraint: Member must satisfy"
        for name in (
            "outputDataConfig.s3OutputPath",
            "outputDataConfig.kmsKeyId",
            "algorithmSpecification.trainingImage",
        )
    ),
    "The S3 output path has invalid characters",
]
WITHOUT_TEXT = {
    "_TEXTS": {
        "training image",
        r"\bECR\b",
        "container registry",
        "manifest unknown",
        "No S3 objects found",
        "NoSuchBucket",
        "NoSuchKey",
        "bucket is in this region",
        "AssumeRole",
        "not authorized",
        "Forbidden",
        "KMS",
        "data download",
        "artifact upload",
        "S3",
    },
    "_ALGORITHM_TEXTS": {"out of memory", "OutOfMemory"},
}
"""Words of the tables without which every text keeps its class: another word in it has the same class, or no text
with the word is here. A new word needs a text. No public record of the refusal of a training plan was found, either."""
FAILED = [{"type": "Failed", "reason": "BackoffLimitExceeded", "message": "too many", "lastTransitionTime": at(60)}]


def of_failed_pod(made: dict[str, Any]) -> str:
    failure = failure_of_end(describe_cluster_job(found(made, conditions=FAILED)))
    return failure.name if failure else ""


def of_end_of_job(row: dict[str, str]) -> str:
    failure = failure_of_end(TrainingJobDescription(state=JobState.FAILED, phase="Failed", reason=row["text"]))
    return failure.name if failure else ""


def of_pod(row: dict[str, str]) -> str:
    return of_failed_pod(pod(phase="Failed", reason=row["reason"], message=row["text"], train=terminated(137)))


def of_disruption(row: dict[str, str]) -> str:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": row["text"], "lastTransitionTime": at(40)}
    return of_failed_pod(pod(phase="Failed", conditions=[condition], train=terminated(137)))


def of_container(row: dict[str, str]) -> str:
    ended = terminated(128, reason=row["reason"], message=row["text"])
    return of_failed_pod(pod(phase="Failed", train=ended, prepare=terminated()))


def of_waiting_container(row: dict[str, str]) -> str:
    """Return the class with which the child stops a training job that waits for its image."""
    waiting = {"waiting": {"reason": row["reason"], "message": row["text"]}}
    wait = start_wait(found(pod(phase="Pending", train=waiting)))
    return wait.failure if wait else ""


def of_forbidden(row: dict[str, str]) -> str:
    cluster = EksCluster.model_validate({"cluster": "research"})
    refusals = Refusals(access=Access(grid="traingrid", region=REGION, cluster=cluster))
    error = refusals.launch_error(NAME, ApiError(FORBIDDEN, "Forbidden", row["text"]))
    return error.failure.name if isinstance(error, LaunchError) else ""


def of_child(row: dict[str, str]) -> str:
    final = [{"onExitCode": str(code), "action": "EXIT"} for code in FOR_GOOD]
    outcome = Outcome(exit_code=None, reason=row["text"], status_reason="Task failed to start")
    return "retried" if should_retry({"attempts": MAX_ATTEMPTS, "evaluateOnExit": final}, 1, outcome) else ""


CLASSES: dict[str, Callable[[dict[str, str]], str]] = {
    "end": of_end_of_job,
    "refusal": lambda row: failure_of_refusal(row["code"], row["text"]).name,
    "pod": of_pod,
    "disruption": of_disruption,
    "container": of_container,
    "waiting": of_waiting_container,
    "api": of_forbidden,
    "child": of_child,
}


def test_the_texts_have_a_source_and_a_class_with_a_next_step() -> None:
    assert len({row["text"] for row in TEXTS}) >= MIN_TEXTS
    for row in TEXTS:
        assert row["source"].startswith("https://")
        failure = FAILURES.get(row["failure"])
        assert row["failure"] == "retried" or failure
        assert not row["next_step"] or failure is None or failure.next_step


def wrong_classes() -> list[tuple[str, str, str]]:
    """Return the expected class, the class and the text of each text that gets another class."""
    found = [(row["failure"], CLASSES[row["kind"]](row), row["text"]) for row in TEXTS]
    found += [(failure, of_end_of_job({"text": text}), text) for text, failure in ALGORITHM_ERRORS]
    found += [
        (INVALID_REQUEST.name, failure_of_refusal("ValidationException", text).name, text) for text in BROKEN_RULES
    ]
    return [(expected, failure, text) for expected, failure, text in found if failure != expected]


def test_every_text_gets_the_class_whose_next_step_helps() -> None:
    assert wrong_classes() == []


@pytest.mark.parametrize("table", ["_TEXTS", "_ALGORITHM_TEXTS"])
def test_every_word_of_the_table_is_needed_by_a_text(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = getattr(failures, table)
    unneeded = set()
    for place, (failure, pattern) in enumerate(rows):
        words = pattern.pattern.split("|")
        for word in words:
            others = "|".join(other for other in words if other != word) or "(?!)"
            changed = [*rows[:place], (failure, re.compile(others, re.IGNORECASE)), *rows[place + 1 :]]
            monkeypatch.setattr(failures, table, tuple(changed))
            if not wrong_classes():
                unneeded.add(word)
    assert unneeded == WITHOUT_TEXT[table]


@pytest.mark.parametrize(("reason", "failure"), ALGORITHM_ERRORS)
def test_an_algorithm_error_with_another_cause_than_the_program(reason: str, failure: str) -> None:
    assert of_end_of_job({"text": reason}) == failure


# The reasons of pkg/kubelet/lifecycle/predicate.go of Kubernetes, and of the kubelet's other checks.
@pytest.mark.parametrize(
    "reason",
    [
        *("OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfnvidia.com/gpu", "TaintToleration", "NodeAffinity"),
        *("UnexpectedAdmissionError", "InvalidNodeInfo", "TopologyAffinityError", "a reason of a later version"),
    ],
)
def test_a_pod_that_the_kubelet_refuses_is_lost_before_and_after_its_start(reason: str) -> None:
    text = "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 8000, capacity: 8000"
    assert of_pod({"reason": reason, "text": text}) == "lost_node"
    refused = pod(phase="Failed", reason=reason, message=text)
    failed = pod(1, phase="Failed", train=terminated(1, until=50))
    for pods in ([refused], [refused, failed]):
        seen = describe_cluster_job(found(*pods, conditions=FAILED, hosts=len(pods)))
        assert reason in seen.reason
        assert seen.failure == "lost_node"


@pytest.mark.parametrize("container", ["prepare", "train"])
def test_a_container_whose_end_the_kubelet_does_not_know_is_lost(container: str) -> None:
    lost = terminated(137, reason="ContainerStatusUnknown", message="The container could not be located")
    containers: dict[str, Any] = {container: lost}
    assert of_failed_pod(pod(phase="Failed", **containers)) == "lost_node"


# The kubelet also reports it for a container that had ended (https://github.com/kubernetes/kubernetes/issues/104107).
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_an_upload_whose_end_the_kubelet_does_not_know_is_lost(phase: str) -> None:
    text = "The container could not be located when the pod was terminated"
    lost = terminated(137, reason="ContainerStatusUnknown", message=text)
    uploading = pod(phase=phase, train=terminated(0), results=lost)
    for conditions in (FAILED, [{"type": "Complete"}]):
        seen = describe_cluster_job(found(uploading, conditions=conditions))
        assert (seen.state, seen.failure) == ("Failed", "lost_node")
        assert text in seen.reason


@pytest.mark.parametrize("code", sorted(INVALID_CREDENTIAL_CODES))
def test_refused_credentials_have_a_next_step(code: str) -> None:
    assert failure_of_refusal(code, "The security token included in the request is invalid.") is PERMISSION
    assert PERMISSION.next_step


def test_a_parameter_that_breaks_a_rule_is_an_invalid_request_whatever_its_name() -> None:
    for text in BROKEN_RULES:
        assert failure_of_refusal("ValidationException", text) is INVALID_REQUEST


@pytest.mark.parametrize("kind", CLASSES)
def test_every_kind_of_text_has_a_record(kind: str) -> None:
    assert any(row["kind"] == kind for row in TEXTS)
