"""Lambda function: starts the image builds that a deployment requests, and responds when they have ended."""

from __future__ import annotations

from typing import Any

from traingrid import names
from traingrid.deploy import image_build

_SECONDS_TO_ANSWER = 10
"""Seconds of the function's timeout that are reserved for the response to CloudFormation."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Handle a CloudFormation request, the event that a build sends before it ends, or a CodeBuild state change."""
    within = context.get_remaining_time_in_millis() / 1000 - _SECONDS_TO_ANSWER
    if "RequestType" in event:
        image_build.begin(event, within=within)
    elif event["source"] == names.BUILD_EVENTS:
        image_build.wait_for_end(event, within=within)
    else:
        image_build.finish(event)
