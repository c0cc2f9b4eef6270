"""Custom resources: what CloudFormation asks a function while it deploys a stack, and how it is answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import urllib3

if TYPE_CHECKING:
    from collections.abc import Mapping

REPEATED = ("StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId", "ResponseURL")
"""What an answer needs of its request."""


def answer(request: Mapping[str, str], status: str, *, reason: str = "", data: Mapping[str, str] | None = None) -> None:
    """Answer CloudFormation, in the form of
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html.

    Args:
        request: The request, or what was kept of it, with the resource's PhysicalResourceId.
        status: SUCCESS or FAILED.
        reason: Why it failed; the deployment shows it.
        data: The resource's attributes.

    Raises:
        OSError: The answer was not taken. Lambda tries an asynchronous event again.
    """
    repeated = {key: value for key, value in request.items() if key in REPEATED and key != "ResponseURL"}
    body = json.dumps({**repeated, "Status": status, "Reason": reason, "Data": data or {}})
    # The URL is a signed PUT of an object without a content type.
    http = urllib3.PoolManager(timeout=30.0)
    sent = http.request("PUT", request["ResponseURL"], body=body, headers={"content-type": ""})
    if sent.status >= 300:
        raise OSError(f"CloudFormation's address for the answer to {request['RequestId']} answers {sent.status}")
