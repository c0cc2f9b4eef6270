"""Custom resources: sends a function's response to CloudFormation's request."""

import json
from collections.abc import Mapping

import urllib3

REPEATED = ("StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId", "ResponseURL")
"""The fields of a request that its response needs."""


def answer(request: Mapping[str, str], status: str, *, reason: str = "", data: Mapping[str, str] | None = None) -> None:
    """Send the response to a request of CloudFormation.

    Format: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html

    Args:
        request: The request, or the fields of it in `REPEATED`, with the resource's PhysicalResourceId.
        status: SUCCESS or FAILED.
        reason: The reason of a failure, which the deployment shows.

    Raises:
        OSError: CloudFormation did not accept the response. Lambda retries an asynchronous event.
    """
    repeated = {key: value for key, value in request.items() if key in REPEATED and key != "ResponseURL"}
    body = json.dumps({**repeated, "Status": status, "Reason": reason, "Data": data or {}})
    # The presigned URL is for a PUT without a content type.
    http = urllib3.PoolManager(timeout=30.0)
    response = http.request("PUT", request["ResponseURL"], body=body, headers={"content-type": ""})
    if response.status >= 300:
        raise OSError(
            f"CloudFormation rejected the response to {request['RequestId']} with HTTP status {response.status}"
        )
