"""Image build: starts a build for a CloudFormation request, and responds to the request when the build has ended.

A build may take longer than the maximum duration of a Lambda function, so no function waits for it. An environment
variable of the build contains the data that the response needs. CodeBuild's event returns it at every end of a build,
including a stopped build, a timeout, and a build that never got a host. CodeBuild delivers its events on a best-effort
basis (https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-codebuild.html), so a build also puts an event
itself before it ends, after which CodeBuild is polled for the build's status. CloudFormation uses the first response to
a request.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from traingrid.aws.clients import client
from traingrid.deploy.build_quotas import CONCURRENT_BUILDS, raise_command
from traingrid.deploy.custom_resource import REPEATED, answer
from traingrid.strict_json import json_object

REQUEST_VARIABLE = "CLOUDFORMATION_REQUEST"
"""The environment variable of a build that contains the CloudFormation request."""

_TOO_MANY = "AccountLimitExceededException"
"""StartBuild's error if the account has reached its quota of builds. Recorded messages: "Cannot have more than 1 builds
in queue for the account" if builds start at the same time
(https://github.com/aws-samples/aws-gateway-load-balancer-suricata-ids-ips-nsm/issues/12), and "more than 0 builds" in
new accounts (https://github.com/hashicorp-education/learn-terraform-aws-control-tower-aft/issues/7)."""
_LIMIT = re.compile(r"more than (\d+) builds")

# These errors may pass: a new role takes some seconds to propagate, and a build that uses up the quota may end.
_NOT_YET = ("AccessDeniedException", "AccessDenied", _TOO_MANY)
_NO_ROLE_YET = "sts:AssumeRole"
"""Part of the message of InvalidInputException with which CodeBuild refuses a role that IAM has not distributed yet:
https://github.com/hashicorp/terraform-provider-aws/issues/4233 and .../11709, there for a new project."""
_AGAIN_SECONDS = 3


class BuildRunsError(Exception):
    """A build put its last event but has not ended yet. Lambda invokes the function again after a minute."""


def begin(event: Mapping[str, Any], within: float) -> None:
    """Start the build of a CloudFormation request, or respond with the reason if it cannot be started.

    Args:
        event: The request (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-requests.html)
            with the properties Project, Repository, Tag and Compute.
        within: Seconds for which temporary errors are retried: a permission that has not propagated yet, or a quota
            that another build uses up. Then the request fails; CloudFormation would otherwise wait for an hour.
    """
    deadline = time.monotonic() + within
    properties = event["ResourceProperties"]
    name = f"{properties['Repository']}:{properties['Tag']}"
    request = {key: event[key] for key in REPEATED if key in event} | {"PhysicalResourceId": name}
    if event["RequestType"] == "Delete":  # the repository deletes its images; older jobs may still pull this one
        answer(request | {"PhysicalResourceId": event["PhysicalResourceId"]}, "SUCCESS")
        return
    travelling = json.dumps(request | {"Repository": properties["Repository"], "Tag": properties["Tag"]})
    try:
        _start(properties, event["RequestId"], travelling, deadline)
    except ClientError as error:
        answer(request, "FAILED", reason=f"The build of {name} could not be started: {_reason(error, properties)}")


def _start(properties: Mapping[str, str], token: str, travelling: str, deadline: float) -> None:
    """Start a build once, and retry until its permissions and the quota allow it."""
    variables = {"TAG": properties["Tag"], REQUEST_VARIABLE: travelling}
    while True:
        try:
            client("codebuild").start_build(
                projectName=properties["Project"],
                idempotencyToken=token,
                environmentVariablesOverride=[
                    {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
                ],
            )
        except ClientError as error:
            if not _may_pass(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _may_pass(error: ClientError) -> bool:
    """Return True for an error that may pass within seconds, which excludes a quota of zero builds."""
    code = error.response["Error"]["Code"]
    message = error.response["Error"].get("Message", "")
    if code == "InvalidInputException":
        return _NO_ROLE_YET in message
    return code in _NOT_YET and _limit(error) != 0


def _limit(error: ClientError) -> int | None:
    """Return the account's quota of builds from a StartBuild error; None if its message has no number."""
    match = _LIMIT.search(error.response["Error"].get("Message", ""))
    return int(match[1]) if match else None


def _reason(error: ClientError, properties: Mapping[str, str]) -> str:
    """Return the reason of an error, with the next step if a quota caused it."""
    if error.response["Error"]["Code"] != _TOO_MANY or properties.get("Compute") not in CONCURRENT_BUILDS:
        return f"{error}."
    compute, region = properties["Compute"], os.environ["AWS_REGION"]
    message = error.response["Error"].get("Message", "").rstrip(".")
    return (
        f'the account\'s CodeBuild quota "{CONCURRENT_BUILDS[compute].name}" in {region} is used up ({message}). '
        f"Raise it, then deploy again, which builds only the images that are missing: "
        f"{raise_command(compute, region, (_limit(error) or 0) + 1)}"
    )


def finish(event: Mapping[str, Any]) -> None:
    """Respond to CloudFormation's request with the digest of the built image, or with the reason of the failure.

    Args:
        event: CodeBuild's "Build State Change" event of an ended build
            (https://docs.aws.amazon.com/codebuild/latest/userguide/sample-build-notifications.html).
    """
    detail = event["detail"]
    details = detail["additional-information"]
    _answer(
        detail["build-status"],
        details["environment"]["environment-variables"],
        details.get("logs", {}).get("deep-link"),
    )


def wait_for_end(event: Mapping[str, Any], within: float) -> None:
    """Wait for the end of a build that put its last event, and respond to CloudFormation's request.

    Args:
        event: The event that the build's script put; its detail has the key `build-id`.
        within: Seconds to wait for the end of the build.

    Raises:
        BuildRunsError: The build has not ended within that time.
    """
    identifier = event["detail"]["build-id"]
    deadline = time.monotonic() + within
    while True:
        builds = client("codebuild").batch_get_builds(ids=[identifier])["builds"]
        if not builds:
            return
        (build,) = builds
        if build["buildComplete"]:
            break
        if time.monotonic() >= deadline:
            raise BuildRunsError(identifier)
        time.sleep(_AGAIN_SECONDS)
    _answer(build["buildStatus"], build["environment"]["environmentVariables"], build.get("logs", {}).get("deepLink"))


def _answer(status: str, variables: list[Mapping[str, str]], log: str | None) -> None:
    """Respond to the request in a build's environment variables."""
    environment = {entry["name"]: entry["value"] for entry in variables}
    if REQUEST_VARIABLE not in environment:  # a person started the project by hand
        return
    request = json_object(environment[REQUEST_VARIABLE], f"The variable {REQUEST_VARIABLE} of a build")
    if status != "SUCCEEDED":
        name = request["PhysicalResourceId"]
        reason = f"The build of {name} ended {status}. Its log has the reason: {log or 'see the CodeBuild console'}"
        answer(request, "FAILED", reason=reason)
        return
    description = client("ecr").describe_images(
        repositoryName=request["Repository"], imageIds=[{"imageTag": request["Tag"]}]
    )
    answer(request, "SUCCESS", data={"Digest": description["imageDetails"][0]["imageDigest"]})
