"""Building an image while a stack is deployed: CloudFormation's request starts a build, and the build's end answers it.

A build may take longer than a Lambda function lives, so nobody waits. What the answer needs travels with the build, as
an environment variable of it, and comes back with CodeBuild's event, which tells of every end: also of a build that was
stopped, ran into its timeout, or never got a host.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.clients import client
from traingrid.custom_resource import REPEATED, answer

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUEST_VARIABLE = "CLOUDFORMATION_REQUEST"
"""The environment variable of a build that holds what its end must answer."""

# Of roles that were made seconds ago: they come to be known everywhere while we ask again.
_NOT_YET = ("AccessDeniedException", "AccessDenied")
_AGAIN_SECONDS = 3


def begin(event: Mapping[str, Any], within: float) -> None:
    """Start the build that a request of CloudFormation asks for, or answer why it cannot be started.

    Args:
        event: The request (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-requests.html)
            with the properties Project, Repository and Tag.
        within: For how many seconds a permission that is missing may be one that is not known everywhere yet. After
            that it is said: nobody else would, and CloudFormation would wait for an hour.
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
        _start(wanted["Project"], event["RequestId"], travelling, until)
    except ClientError as error:
        answer(request, "FAILED", reason=f"The build of {name} could not be started: {error}.")


def _start(project: str, token: str, travelling: str, until: float) -> None:
    """Start a build once, whenever its project may be used."""
    variable = {"name": REQUEST_VARIABLE, "value": travelling, "type": "PLAINTEXT"}
    while True:
        try:
            client("codebuild").start_build(
                projectName=project, idempotencyToken=token, environmentVariablesOverride=[variable]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in _NOT_YET or time.monotonic() >= until:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def finish(event: Mapping[str, Any]) -> None:
    """Answer CloudFormation's request with the digest of the image that was built, or with why there is none.

    Args:
        event: CodeBuild's "Build State Change" event of a build that has ended
            (https://docs.aws.amazon.com/codebuild/latest/userguide/sample-build-notifications.html).
    """
    detail = event["detail"]
    more = detail["additional-information"]
    variables = {entry["name"]: entry["value"] for entry in more["environment"]["environment-variables"]}
    if REQUEST_VARIABLE not in variables:  # somebody has started the project by hand
        return
    request = json.loads(variables[REQUEST_VARIABLE])
    if detail["build-status"] != "SUCCEEDED":
        log = more.get("logs", {}).get("deep-link", "CodeBuild's console")
        name, status = request["PhysicalResourceId"], detail["build-status"]
        answer(request, "FAILED", reason=f"The build of {name} ended {status}. Its log says why: {log}")
        return
    found = client("ecr").describe_images(repositoryName=request["Repository"], imageIds=[{"imageTag": request["Tag"]}])
    answer(request, "SUCCESS", data={"Digest": found["imageDetails"][0]["imageDigest"]})
