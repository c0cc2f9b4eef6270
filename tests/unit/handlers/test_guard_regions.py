"""lambda/guard_regions, with CloudFormation's requests and a ledger."""

import importlib
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.reconciler_world import open_lines
from tests.unit.handlers.cloudformation import CloudFormation
from traingrid import names
from traingrid.deploy import region_guard
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.ledger.ledger import Ledger


@pytest.fixture(autouse=True)
def stack(aws: None, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the function's environment, create a stack in an update, and return its id."""
    monkeypatch.setenv("TRAINGRID_GRID", deployment.grid.to_environment())
    monkeypatch.setenv("TRAINGRID_ACCOUNT", deployment.account)
    monkeypatch.setenv("TRAINGRID_TABLE", deployment.table)
    monkeypatch.setenv("TRAINGRID_MANIFEST_BUCKET", deployment.manifest_bucket)
    template = '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}'
    made = boto3.client("cloudformation").create_stack(StackName="traingrid-control", TemplateBody=template)
    monkeypatch.setattr(region_guard, "_ON_THE_WAY", ("CREATE_COMPLETE",))  # the stack's state in moto
    return made["StackId"]


def handle(cloudformation: CloudFormation, stack: str, kind: str, **more: Any) -> dict[str, Any]:
    """Invoke the function with a request, and return its response."""
    event = {
        "RequestType": kind,
        "RequestId": "request-1",
        "ResponseURL": cloudformation.url,
        "StackId": stack,
        "LogicalResourceId": "GuardRegions",
        "ResourceType": names.REGIONS_QUESTION,
        "ResourceProperties": {"ServiceToken": "arn", "Regions": ["us-east-1"]},
        **more,
    }
    importlib.import_module("lambda.guard_regions").handler(event, SimpleNamespace())
    (answer,) = cloudformation.answers
    return answer


def removing(cloudformation: CloudFormation, stack: str) -> dict[str, Any]:
    before = {"ServiceToken": "arn", "Regions": ["us-east-1", "eu-west-1"]}
    return handle(cloudformation, stack, "Update", PhysicalResourceId="traingrid-x", OldResourceProperties=before)


def test_a_first_deployment_succeeds_without_checks(
    cloudformation: CloudFormation, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "everything", lambda _self: pytest.fail("it looked"))
    answer = handle(cloudformation, stack, "Create")
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "traingrid-GuardRegions")


def test_a_region_without_jobs_may_be_removed(cloudformation: CloudFormation, stack: str) -> None:
    answer = removing(cloudformation, stack)
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "traingrid-x")


def test_a_region_with_jobs_fails_the_deployment(
    cloudformation: CloudFormation, stack: str, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, ["eu-west-1"])
    answer = removing(cloudformation, stack)
    assert answer["Status"] == "FAILED"
    assert "eu-west-1 cannot be removed from the grid" in answer["Reason"]
    assert answer["PhysicalResourceId"] == "traingrid-x"


def test_an_unavailable_ledger_fails_the_deployment(
    cloudformation: CloudFormation, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_self: Ledger) -> None:
        raise EndpointConnectionError(endpoint_url="https://dynamodb")

    monkeypatch.setattr(Ledger, "everything", silent)
    answer = removing(cloudformation, stack)
    assert answer["Status"] == "FAILED"
    assert "check for unfinished jobs" in answer["Reason"]


def test_deletion_of_the_custom_resource_is_never_refused(
    cloudformation: CloudFormation, stack: str, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, ["eu-west-1"])
    assert handle(cloudformation, stack, "Delete", PhysicalResourceId="traingrid-x")["Status"] == "SUCCESS"
