"""lambda/build_image, with CloudFormation's requests and CodeBuild's replies."""

import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from tests.support.module_time import replace_time
from tests.unit.handlers.cloudformation import CloudFormation
from traingrid.deploy import image_build

DIGEST = "sha256:" + "a" * 64
PROPERTIES = {"ServiceToken": "arn", "Project": "builds", "Repository": "grid/orchestrator", "Tag": "built-1"}
PROPERTIES["Compute"] = "BUILD_GENERAL1_LARGE"


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Stubber]]:
    """Fakes of CodeBuild and ECR that return only the replies of a test."""
    keys = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    clients: dict[str, Any] = {name: boto3.client(name, **keys) for name in ("codebuild", "ecr")}  # type: ignore[call-overload]  # the stubs accept only literal names
    stubs = {name: Stubber(client) for name, client in clients.items()}
    monkeypatch.setattr(image_build, "client", lambda name: clients[name])
    for stub in stubs.values():
        stub.activate()
    yield stubs
    for stub in stubs.values():
        stub.assert_no_pending_responses()


def request(kind: str, cloudformation: CloudFormation, **more: Any) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "RequestId": "request-1",
        "ResponseURL": cloudformation.url,
        "StackId": "stack",
        "LogicalResourceId": "Image",
        "ResourceType": "Custom::ContainerImage",
        "ResourceProperties": PROPERTIES,
        **more,
    }


def handle(event: dict[str, Any], seconds: float = 60) -> None:
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: seconds * 1000)
    importlib.import_module("lambda.build_image").handler(event, context)


def started(stubs: dict[str, Stubber], event: dict[str, Any]) -> str:
    """Handle a request that starts a build. Return the environment variable that the build carries."""
    travelling: list[Any] = []

    class Taken:
        def __eq__(self, other: object) -> bool:
            travelling.append(other)
            return True

        __hash__ = None  # type: ignore[assignment]  # Python's way to declare it unhashable

    wanted = {"projectName": "builds", "idempotencyToken": "request-1", "environmentVariablesOverride": Taken()}
    stubs["codebuild"].add_response("start_build", {}, wanted)
    handle(event)
    tag, variable = travelling[0]
    assert tag == {"name": "TAG", "value": "built-1", "type": "PLAINTEXT"}
    assert variable["name"] == image_build.REQUEST_VARIABLE
    return str(variable["value"])


def ended(status: str, variable: str) -> dict[str, Any]:
    environment = [
        {"name": "TAG", "type": "PLAINTEXT", "value": "built-1"},
        {"name": image_build.REQUEST_VARIABLE, "type": "PLAINTEXT", "value": variable},
    ]
    return {
        "source": "aws.codebuild",
        "detail-type": "CodeBuild Build State Change",
        "detail": {
            "build-status": status,
            "project-name": "builds",
            "additional-information": {
                "environment": {"environment-variables": environment},
                "logs": {"deep-link": "https://console/log"},
            },
        },
    }


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_the_end_of_a_build_completes_its_request(
    kind: str, cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    before = {"PhysicalResourceId": "grid/orchestrator:built-0"} if kind == "Update" else {}
    variable = started(services, request(kind, cloudformation, **before))
    assert cloudformation.answers == []
    described = {"imageDetails": [{"imageDigest": DIGEST}]}
    wanted = {"repositoryName": "grid/orchestrator", "imageIds": [{"imageTag": "built-1"}]}
    services["ecr"].add_response("describe_images", described, wanted)
    handle(ended("SUCCEEDED", variable))
    assert cloudformation.answers == [
        {
            "StackId": "stack",
            "RequestId": "request-1",
            "LogicalResourceId": "Image",
            "PhysicalResourceId": "grid/orchestrator:built-1",
            "Status": "SUCCESS",
            "Reason": "",
            "Data": {"Digest": DIGEST},
            "content-type": "",
        }
    ]


@pytest.mark.parametrize("status", ["FAILED", "FAULT", "STOPPED", "TIMED_OUT"])
def test_a_build_without_an_image_fails_the_deployment_with_its_log(
    status: str, cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    handle(ended(status, started(services, request("Create", cloudformation))))
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == (
        f"The build of grid/orchestrator:built-1 ended {status}. Its log has the reason: https://console/log"
    )


def test_the_builds_request_variable_fits_into_codebuilds_limit(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    long = request("Create", cloudformation, ResponseURL=cloudformation.url + "x" * 1800)
    # https://docs.aws.amazon.com/codebuild/latest/userguide/troubleshooting.html: 5,500 characters in total
    assert len(started(services, long)) < 3000


def test_a_deletion_completes_immediately_and_keeps_the_image(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    handle(request("Delete", cloudformation, PhysicalResourceId="grid/orchestrator:built-0"))
    (answer,) = cloudformation.answers
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "grid/orchestrator:built-0")


def test_a_build_that_cannot_start_fails_the_deployment_immediately(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    services["codebuild"].add_client_error("start_build", "ResourceNotFoundException", "no such project")
    handle(request("Create", cloudformation))
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert "could not be started" in answer["Reason"]
    assert answer["PhysicalResourceId"] == "grid/orchestrator:built-1"


NO_ROLE = "CodeBuild is not authorized to perform: sts:AssumeRole on arn:aws:iam::123456789012:role/build"


@pytest.mark.parametrize(("code", "text"), [("AccessDeniedException", "not yet"), ("InvalidInputException", NO_ROLE)])
def test_starting_a_build_waits_for_the_propagation_of_permissions(
    cloudformation: CloudFormation, services: dict[str, Stubber], monkeypatch: pytest.MonkeyPatch, code: str, text: str
) -> None:
    waited: list[float] = []
    replace_time(monkeypatch, "traingrid.deploy.image_build", sleep=waited.append)
    services["codebuild"].add_client_error("start_build", code, text)
    services["codebuild"].add_response("start_build", {})
    handle(request("Create", cloudformation))
    assert (len(waited), cloudformation.answers) == (1, [])


def test_a_missing_permission_is_reported_before_the_function_times_out(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    services["codebuild"].add_client_error("start_build", "AccessDeniedException", "not allowed")
    handle(request("Create", cloudformation), seconds=9)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert "not allowed" in answer["Reason"]


def test_another_invalid_input_is_reported_at_once(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    services["codebuild"].add_client_error("start_build", "InvalidInputException", "no such project")
    handle(request("Create", cloudformation))
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"


TOO_MANY = "Cannot have more than {} builds in queue for the account"


def test_starting_a_build_waits_while_another_build_uses_the_quota(
    cloudformation: CloudFormation, services: dict[str, Stubber], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_time(monkeypatch, "traingrid.deploy.image_build", sleep=lambda _: None)
    services["codebuild"].add_client_error("start_build", "AccountLimitExceededException", TOO_MANY.format(1))
    services["codebuild"].add_response("start_build", {})
    handle(request("Create", cloudformation))
    assert cloudformation.answers == []


# 60 s and 9 s are the function's remaining time. If builds are not allowed at all, waiting is useless.
@pytest.mark.parametrize(("limit", "seconds"), [(0, 60), (1, 9)])
def test_an_exhausted_build_quota_is_reported_with_a_solution(
    cloudformation: CloudFormation,
    services: dict[str, Stubber],
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    seconds: float,
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    services["codebuild"].add_client_error("start_build", "AccountLimitExceededException", TOO_MANY.format(limit))
    handle(request("Create", cloudformation), seconds=seconds)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == (
        "The build of grid/orchestrator:built-1 could not be started: the account's CodeBuild quota "
        '"Concurrently running builds for Linux/Large environment" in us-east-1 is used up '
        f"({TOO_MANY.format(limit)}). Raise it, then deploy again, which builds only the images that are missing: "
        "aws service-quotas request-service-quota-increase --region us-east-1 --service-code codebuild "
        f"--quota-code L-4DDC4A99 --desired-value {limit + 1}"
    )


def ending() -> dict[str, Any]:
    detail = {"build-status": "ENDING", "project-name": "builds", "build-id": "builds:0123"}
    return {"source": "traingrid.builds", "detail-type": "Build Ending", "detail": detail}


def described(status: str, variable: str) -> dict[str, Any]:
    variables = [{"name": image_build.REQUEST_VARIABLE, "value": variable}]
    environment = {"type": "LINUX_CONTAINER", "image": "x", "computeType": "BUILD_GENERAL1_SMALL"}
    build = {
        "buildStatus": status,
        "buildComplete": status != "IN_PROGRESS",
        "logs": {"deepLink": "https://console/log"},
    }
    return {"builds": [{**build, "environment": {**environment, "environmentVariables": variables}}]}


def test_a_builds_own_event_suffices_if_codebuilds_is_lost(
    cloudformation: CloudFormation, services: dict[str, Stubber], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_time(monkeypatch, "traingrid.deploy.image_build", sleep=lambda _: None)
    variable = started(services, request("Create", cloudformation))
    for status in ("IN_PROGRESS", "SUCCEEDED"):
        services["codebuild"].add_response("batch_get_builds", described(status, variable), {"ids": ["builds:0123"]})
    services["ecr"].add_response("describe_images", {"imageDetails": [{"imageDigest": DIGEST}]})
    handle(ending())
    (answer,) = cloudformation.answers
    assert (answer["Status"], answer["Data"]) == ("SUCCESS", {"Digest": DIGEST})


def test_a_failed_build_that_reports_its_end_fails_the_deployment(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    variable = started(services, request("Create", cloudformation))
    services["codebuild"].add_response("batch_get_builds", described("FAILED", variable))
    handle(ending())
    (answer,) = cloudformation.answers
    assert answer["Reason"].endswith("ended FAILED. Its log has the reason: https://console/log")


def test_lambda_retries_the_check_of_a_build_that_has_not_ended(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    variable = started(services, request("Create", cloudformation))
    services["codebuild"].add_response("batch_get_builds", described("IN_PROGRESS", variable))
    with pytest.raises(image_build.BuildRunsError, match="builds:0123"):
        importlib.import_module("lambda.build_image").handler(
            ending(), SimpleNamespace(get_remaining_time_in_millis=lambda: 9000)
        )
    assert cloudformation.answers == []


def test_a_refused_response_is_an_error_so_that_lambda_retries(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    cloudformation.status = 503
    with pytest.raises(OSError, match="HTTP status 503"):
        handle(request("Delete", cloudformation, PhysicalResourceId="x"))


def test_a_manually_started_build_sends_no_response(
    cloudformation: CloudFormation, services: dict[str, Stubber]
) -> None:
    event = ended("SUCCEEDED", "{}")
    del event["detail"]["additional-information"]["environment"]["environment-variables"][1]
    handle(event)
    assert cloudformation.answers == []
