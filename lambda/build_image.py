"""Lambda: start the builds of images that a deployment asks for, and tell it how they ended."""

from __future__ import annotations

from typing import Any

from traingrid import image_build


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives it
    """Take a request of CloudFormation, or CodeBuild's event that a build has ended."""
    if "RequestType" in event:
        image_build.begin(event)
    else:
        image_build.finish(event)
