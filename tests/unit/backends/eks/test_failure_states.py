"""Failure: the states and failure classes of training jobs whose containers failed."""

import pytest

from tests.support.eks_jobs import at, found, pod, terminated
from tests.unit.backends.eks.pods import COMPLETE, FAILED, End, check_end, failed

ENDS: dict[str, End] = {
    "upload failed": (
        found(
            pod(
                phase="Succeeded",
                train=terminated(),
                results=terminated(1, message='{"error": "ClientError: Artifact upload failed:x"}'),
            ),
            conditions=COMPLETE,
        ),
        "Failed",
        "data",
        "ClientError: Artifact upload failed:x",
    ),
    "upload killed": (
        found(
            pod(phase="Succeeded", train=terminated(), results=terminated(137, reason="OOMKilled")), conditions=COMPLETE
        ),
        "Failed",
        "memory",
        "ClientError: The artifact upload failed: Out of memory on host 1 (OOMKilled), exit code: 137. Choose an ",
    ),
    "upload killed, but not for memory": (
        found(pod(phase="Succeeded", train=terminated(), results=terminated(137)), conditions=COMPLETE),
        "Failed",
        "internal_error",
        "InternalServerError: The artifact upload failed: it ended with exit code 137",
    ),
    "download killed": (
        found(
            pod(phase="Failed", prepare=terminated(137, message="downloads x", reason="OOMKilled")), conditions=FAILED
        ),
        "Failed",
        "memory",
        "ClientError: The preparation of host 1 failed: Out of memory on host 1 (OOMKilled), exit code: 137. ",
    ),
    "training failed": (
        found(failed(text="ValueError: no"), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: ValueError: no, exit code: 1",
    ),
    "training failed without a text": (
        found(failed(code=3), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 3",
    ),
    "out of memory": (
        found(failed(code=137, reason="OOMKilled"), conditions=FAILED),
        "Failed",
        "memory",
        "ClientError: Out of memory on host 1 (OOMKilled), exit code: 137. Choose an instance_type with more memory",
    ),
    "out of memory, with a text": (
        found(failed(code=137, reason="OOMKilled", text="died"), conditions=FAILED),
        "Failed",
        "memory",
        "ClientError: Out of memory on host 1 (OOMKilled), exit code: 137: died. Choose an instance_type with more ",
    ),
    "killed, but not for memory": (
        found(failed(code=137), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 137",
    ),
    "image cannot be started": (
        found(failed(code=128, reason="StartError"), conditions=FAILED),
        "Failed",
        "image",
        "ClientError: CannotStartContainerError",
    ),
    "the first failure counts": (
        found(failed(0, 1, "second", until=40), failed(1, 2, "first", until=30), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: first, exit code: 2",
    ),
    "a pod that the controller stopped does not count": (
        found(failed(0, 143, "", until=30, deleted=at(29)), failed(1, 2, "own", until=31), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "preparation failed": (
        found(
            pod(phase="Failed", prepare=terminated(1, message="log\nClientError: Data download failed:NoSuchKey")),
            conditions=FAILED,
        ),
        "Failed",
        "data",
        "ClientError: Data download failed:NoSuchKey",
    ),
    "preparation killed": (
        found(pod(phase="Failed", prepare=terminated(137)), conditions=FAILED),
        "Failed",
        "internal_error",
        "InternalServerError: The preparation of host 1 failed",
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_container_that_failed_decides(end: End) -> None:
    check_end(end)
