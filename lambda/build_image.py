"""Lambda: start the builds of images that a deployment asks for, and tell it how they ended."""

from __future__ import annotations

from typing import Any

from traingrid import image_build

_FOR_THE_ANSWER = 10
"""Seconds of the function's own that are kept for telling CloudFormation what came of it."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Take a request of CloudFormation, or CodeBuild's event that a build has ended."""
    if "RequestType" in event:
        image_build.begin(event, within=context.get_remaining_time_in_millis() / 1000 - _FOR_THE_ANSWER)
    else:
        image_build.finish(event)
