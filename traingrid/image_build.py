"""Building an image while a stack is deployed: CloudFormation's request starts a build, and the build's end answers it.

A build may take longer than a Lambda function lives, so nothing waits for it. The data that the answer needs is an
environment variable of the build, and returns with CodeBuild's event, which reports every end: also of a build that
was stopped, ran into its timeout, or never got a host. CodeBuild delivers its events on a best-effort basis
(https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-codebuild.html), so a build puts an event itself before
it ends, and then CodeBuild is asked how it ended. CloudFormation takes the first answer to a request.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.build_quotas import CONCURRENT_BUILDS, raise_command
from traingrid.clients import client
from traingrid.custom_resource import REPEATED, answer

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUEST_VARIABLE = "CLOUDFORMATION_REQUEST"
"""The environment variable of a build that holds the request that its end must answer."""

_TOO_MANY = "AccountLimitExceededException"
"""StartBuild's error where the account may not run another build. Recorded texts: "Cannot have more than 1 builds in
queue for the account" where builds start together
(https://github.com/aws-samples/aws-gateway-load-balancer-suricata-ids-ips-nsm/issues/12), and "more than 0 builds" in
new accounts (https://github.com/hashicorp-education/learn-terraform-aws-control-tower-aft/issues/7)."""
_LIMIT = re.compile(r"more than (\d+) builds")

# A new role is not known everywhere for some seconds; a build that fills the quota may end.
_NOT_YET = ("AccessDeniedException", "AccessDenied", _TOO_MANY)
_AGAIN_SECONDS = 3


class BuildRunsError(Exception):
    """A build reported that it ends, and has not ended yet. Lambda invokes the function again after a minute."""


def begin(event: Mapping[str, Any], within: float) -> None:
    """Start the build that a request of CloudFormation asks for, or answer why it cannot be started.

    Args:
        event: The request (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-requests.html)
            with the properties Project, Repository, Tag and Compute.
        within: Seconds in which a refusal may pass: a permission that is not known everywhere yet, another build that
            fills the quota. After that the request is answered; CloudFormation would otherwise wait for an hour.
    """
    until = time.monotonic() + within
    wanted = event["ResourceProperties"]
    name = f"{wanted['Repository']}:{wanted['Tag']}"
    request = {key: event[key] for key in REPEATED if key in event} | {"PhysicalResourceId": name}
    if event["RequestType"] == "Delete":  # images go with their repository; jobs of an older one may still pull it
        answer(request | {"PhysicalResourceId": event["PhysicalResourceId"]}, "SUCCESS")
        return
    travelling = json.dumps(request | {"Repository": wanted["Repository"], "Tag": wanted["Tag"]})
    try:
        _start(wanted, event["RequestId"], travelling, until)
    except ClientError as error:
        answer(request, "FAILED", reason=f"The build of {name} could not be started: {_why(error, wanted)}")


def _start(wanted: Mapping[str, str], token: str, travelling: str, until: float) -> None:
    """Start a build once, as soon as its project and the quota allow it."""
    variables = {"TAG": wanted["Tag"], REQUEST_VARIABLE: travelling}
    while True:
        try:
            client("codebuild").start_build(
                projectName=wanted["Project"],
                idempotencyToken=token,
                environmentVariablesOverride=[
                    {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
                ],
            )
        except ClientError as error:
            if not _may_pass(error) or time.monotonic() >= until:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _may_pass(error: ClientError) -> bool:
    """Return True for a refusal that may end within seconds: not where no build at all is allowed."""
    return error.response["Error"]["Code"] in _NOT_YET and _limit(error) != 0


def _limit(error: ClientError) -> int | None:
    """Return how many builds an account may run, as an error of StartBuild has it; None if it has no number."""
    found = _LIMIT.search(error.response["Error"].get("Message", ""))
    return int(found[1]) if found else None


def _why(error: ClientError, wanted: Mapping[str, str]) -> str:
    """Return the reason of a refusal, with the next step where a quota is the reason."""
    if error.response["Error"]["Code"] != _TOO_MANY or wanted.get("Compute") not in CONCURRENT_BUILDS:
        return f"{error}."
    compute, region = wanted["Compute"], os.environ["AWS_REGION"]
    said = error.response["Error"].get("Message", "").rstrip(".")
    return (
        f'the account\'s CodeBuild quota "{CONCURRENT_BUILDS[compute].name}" in {region} is used up ({said}). '
        f"Raise it, then deploy again, which builds only the images that are missing: "
        f"{raise_command(compute, region, (_limit(error) or 0) + 1)}"
    )


def finish(event: Mapping[str, Any]) -> None:
    """Answer CloudFormation's request with the digest of the image that was built, or with why there is none.

    Args:
        event: CodeBuild's "Build State Change" event of a build that has ended
            (https://docs.aws.amazon.com/codebuild/latest/userguide/sample-build-notifications.html).
    """
    detail = event["detail"]
    more = detail["additional-information"]
    _answer(detail["build-status"], more["environment"]["environment-variables"], more.get("logs", {}).get("deep-link"))


def look(event: Mapping[str, Any], within: float) -> None:
    """Ask CodeBuild how a build ended that reported that it ends, and answer CloudFormation's request.

    Args:
        event: The event that the build's script put; its detail has the key `build-id`.
        within: Seconds in which the build may still end.

    Raises:
        BuildRunsError: The build has not ended by then.
    """
    identifier, until = event["detail"]["build-id"], time.monotonic() + within
    while True:
        found = client("codebuild").batch_get_builds(ids=[identifier])["builds"]
        if not found:
            return
        (build,) = found
        if build["buildComplete"]:
            break
        if time.monotonic() >= until:
            raise BuildRunsError(identifier)
        time.sleep(_AGAIN_SECONDS)
    _answer(build["buildStatus"], build["environment"]["environmentVariables"], build.get("logs", {}).get("deepLink"))


def _answer(status: str, variables: list[Mapping[str, str]], log: str | None) -> None:
    """Answer the request that a build carries among its environment variables."""
    given = {entry["name"]: entry["value"] for entry in variables}
    if REQUEST_VARIABLE not in given:  # a person started the project by hand
        return
    request = json.loads(given[REQUEST_VARIABLE])
    if status != "SUCCEEDED":
        name = request["PhysicalResourceId"]
        reason = f"The build of {name} ended {status}. Its log has the reason: {log or 'see the CodeBuild console'}"
        answer(request, "FAILED", reason=reason)
        return
    found = client("ecr").describe_images(repositoryName=request["Repository"], imageIds=[{"imageTag": request["Tag"]}])
    answer(request, "SUCCESS", data={"Digest": found["imageDetails"][0]["imageDigest"]})
