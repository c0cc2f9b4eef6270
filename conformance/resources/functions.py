"""Lambda functions with a few lines of Python."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

from conformance.resources.identity import allow, role

if TYPE_CHECKING:
    from conformance.aws import Aws


def function(aws: Aws, code: str, **more: Any) -> str:
    """Create a function whose code defines `handler(event, context)`, and return its name.

    Args:
        aws: The place.
        code: The code.
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


def _role(aws: Aws) -> str:
    return role(
        aws,
        "functions",
        {"Service": "lambda.amazonaws.com"},
        allow("logs:CreateLogStream logs:PutLogEvents"),
        allow("sqs:SendMessage", f"arn:aws:sqs:*:{aws.account}:tgc-{aws.run}-*"),
    )
