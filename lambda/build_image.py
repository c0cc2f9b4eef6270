"""Lambda: start the builds of images that a deployment asks for, and answer it when they have ended."""

from __future__ import annotations

from typing import Any

from traingrid import image_build, names

_FOR_THE_ANSWER = 10
"""Seconds of the function's own time that are kept for the answer to CloudFormation."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Take a request of CloudFormation, CodeBuild's event that a build has ended, or a build's event that it ends."""
    within = context.get_remaining_time_in_millis() / 1000 - _FOR_THE_ANSWER
    if "RequestType" in event:
        image_build.begin(event, within=within)
    elif event["source"] == names.BUILD_EVENTS:
        image_build.look(event, within=within)
    else:
        image_build.finish(event)
