"""Lambda functions with a few lines of Python."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from conformance.resources.identity import allow, role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.aws import Aws


def function(aws: Aws, code: str, **more: Any) -> str:
    """Create a function whose code defines `handler(event, context)`, and return its name.

    Args:
        more: Further parameters of CreateFunction; without Role, the function has the role that claims share.
    """
    api, name = aws.client("lambda"), aws.name("function")
    logs, group = aws.client("logs"), f"/aws/lambda/{name}"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("code.py", code)
    aws.undo.later(f"log group {group}", lambda: logs.delete_log_group(logGroupName=group))
    logs.create_log_group(logGroupName=group, tags=aws.tag_map)
    aws.undo.later(f"function {name}", lambda: api.delete_function(FunctionName=name))
    api.create_function(
        FunctionName=name,
        Role=more.pop("Role", "") or aws.once("role/functions", lambda: _role(aws)),
        Runtime="python3.11",
        Handler="code.handler",
        Code={"ZipFile": archive.getvalue()},
        Timeout=10,
        Tags=aws.tag_map,
        **more,
    )
    aws.wait(lambda: api.get_function_configuration(FunctionName=name).get("State", "Active") == "Active", name)
    return name


_CALLS = """
import boto3
from botocore import xform_name
from botocore.exceptions import ClientError

def handler(requests, context):
    return {call: answer(getattr(boto3.client("ec2"), xform_name(call)), request) for call, request in requests.items()}

def answer(call, request):
    try:
        call(**request)
    except ClientError as error:
        return error.response["Error"]["Code"]
"""


def run_with_role(aws: Aws, role_arn: str, requests: Mapping[str, Any]) -> dict[str, str]:
    """Call EC2 in the code of a function with a role; return the error code of each call."""
    name = function(aws, _CALLS, Role=role_arn)
    reply = aws.client("lambda").invoke(FunctionName=name, Payload=json.dumps(requests).encode())
    return dict(json.loads(reply["Payload"].read()))


def _role(aws: Aws) -> str:
    return role(
        aws,
        "functions",
        {"Service": "lambda.amazonaws.com"},
        allow("logs:CreateLogStream logs:PutLogEvents"),
        allow("sqs:SendMessage", f"arn:aws:sqs:*:{aws.account}:tgc-{aws.run}-*"),
    )
