"""Job definitions that AWS Batch refuses for Fargate, and the nearest that it registers."""

from typing import Any

import pytest

from localcloud.batch.definition_rules import problems
from tests.integration.localcloud.compute import EXECUTION_ROLE


def sized(vcpus: str, memory: str, *more: dict[str, str]) -> dict[str, Any]:
    return {"resourceRequirements": [{"type": "VCPU", "value": vcpus}, {"type": "MEMORY", "value": memory}, *more]}


def found(container: dict[str, Any], **more: Any) -> str:
    whole = {"image": "i", "executionRoleArn": EXECUTION_ROLE, **sized("0.25", "512"), **container}
    request = {"jobDefinitionName": "a", "platformCapabilities": ["FARGATE"], "containerProperties": whole, **more}
    return next(problems(request), "")


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        (sized("0.25", "4096"), "Fargate resource requirements (0.25 vCPU, 4096 MiB) not valid."),
        (sized("1", "4000"), "Fargate resource requirements (1.00 vCPU, 4000 MiB) not valid."),
        (sized("3", "8192"), "Fargate resource requirements (3.00 vCPU, 8192 MiB) not valid."),
        (sized("x", "512"), "Fargate resource requirements (x vCPU, 512 MiB) not valid."),
        (sized("0.25", "512", {"type": "GPU", "value": "1"}), "GPU is not applicable for Fargate."),
        ({"resourceRequirements": [{"type": "MEMORY", "value": "512"}]}, "vCPU is not provided."),
        ({"resourceRequirements": [{"type": "VCPU", "value": "1"}]}, "Memory is not provided."),
        ({"executionRoleArn": ""}, "executionRoleArn is required for Fargate"),
        ({"vcpus": 1}, "vcpus is not applicable for Fargate."),
        ({"privileged": True}, "privileged is not applicable for Fargate."),
        ({"linuxParameters": {"sharedMemorySize": 64}}, "sharedMemorySize is not applicable for Fargate."),
        ({"volumes": [{"name": "v", "host": {"sourcePath": "/"}}]}, "volumes.host is not applicable for Fargate."),
        ({"logConfiguration": {"logDriver": "journald"}}, "log driver journald is not supported on Fargate"),
        ({"fargatePlatformConfiguration": {"platformVersion": "9.9"}}, "Fargate platform version 9.9 is none of"),
        ({"ephemeralStorage": {"sizeInGiB": 20}}, "ephemeralStorage.sizeInGiB must be from 21 to 200"),
    ],
)
def test_a_definition_that_fargate_cannot_run_is_refused(container: dict[str, Any], problem: str) -> None:
    assert found(container).startswith(problem)


@pytest.mark.parametrize(
    "container",
    [
        *(sized(*size) for size in (("0.25", "2048"), ("0.50", "4096"), ("1", "8192"), ("16", "122880"))),
        {"privileged": False, "ephemeralStorage": {"sizeInGiB": 21}, "volumes": [{"name": "empty"}]},
        {"linuxParameters": {"initProcessEnabled": True}, "logConfiguration": {"logDriver": "awslogs"}},
        {"fargatePlatformConfiguration": {"platformVersion": "1.4.0"}},
    ],
)
def test_a_definition_that_fargate_runs_is_registered(container: dict[str, Any]) -> None:
    assert not found(container)


def test_names_and_priorities_have_limits() -> None:
    assert "jobDefinitionName 'a.b'" in found({}, jobDefinitionName="a.b")
    assert found({}, schedulingPriority=10_000) == "schedulingPriority must be from 0 to 9999"
    assert not found({}, schedulingPriority=9999)


def test_only_fargate_has_these_rules() -> None:
    assert not found({"privileged": True, "executionRoleArn": ""}, platformCapabilities=["EC2"])
