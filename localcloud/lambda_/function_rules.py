"""Function rules: configurations with which Lambda creates or updates no function.

Ranges and patterns are those of the service model; the rest is of
https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html and
https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html.
"""

import json
from typing import Any

from moto.awslambda.exceptions import LambdaClientError

from localcloud.credentials.arn import account_of_arn, name_of_arn
from localcloud.iam.resource_policies import allows_service
from localcloud.iam.roles import trust_of
from localcloud.wire.service_model import sentence, violations

MAX_TIMEOUT, MAX_MEMORY = 900, 10_240
"""Seconds and MB; the service model also has the larger limits of Lambda Managed Instances."""
MAX_VARIABLES = 4096
"""Bytes of all environment variables."""
_RESERVED = {
    *(f"AWS_LAMBDA_{name}" for name in ("FUNCTION_NAME", "FUNCTION_MEMORY_SIZE", "FUNCTION_VERSION")),
    *(f"AWS_LAMBDA_{name}" for name in ("INITIALIZATION_TYPE", "LOG_GROUP_NAME", "LOG_STREAM_NAME", "RUNTIME_API")),
    *("AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_EXECUTION_ENV", "LAMBDA_RUNTIME_DIR", "LAMBDA_TASK_ROOT", "_HANDLER"),
}


def check_function(operation: str, request: dict[str, Any], role: str, arn: str) -> None:
    """Check a request that creates a function or updates its configuration.

    Args:
        operation: "CreateFunction" or "UpdateFunctionConfiguration".
        request: The request's members.
        role: The ARN of the function's role.

    Raises:
        LambdaClientError: A member is invalid, or Lambda may not assume the role.
    """
    problems = violations("lambda", operation, request)
    for name, limit in (("Timeout", MAX_TIMEOUT), ("MemorySize", MAX_MEMORY)):
        if (value := request.get(name) or 0) > limit:
            member = name[0].lower() + name[1:]
            rule = f"Member must have value less than or equal to {limit}"
            problems.append(f"Value '{value}' at '{member}' failed to satisfy constraint: {rule}")
    if problems:
        raise LambdaClientError("ValidationException", sentence(problems))
    _check_variables((request.get("Environment") or {}).get("Variables") or {})
    trust = trust_of(name_of_arn(role), account_of_arn(role))
    if not allows_service(trust, "sts:AssumeRole", "lambda.amazonaws.com", arn):
        # https://github.com/danilop/LambdAuth/issues/49
        raise _refused("The role defined for the function cannot be assumed by Lambda.")


def _check_variables(variables: dict[str, str]) -> None:
    """Refuse reserved names and variables that are too long together.

    https://github.com/mattermost/mattermost-cloud-monitoring/pull/264,
    https://github.com/github-aws-runners/terraform-aws-github-runner/issues/3594
    """
    failed = (
        "Lambda was unable to configure your environment variables because the environment variables you have provided"
    )
    if reserved := sorted(_RESERVED & set(variables)):
        reason = "contains reserved keys that are currently not supported for modification"
        raise _refused(f"{failed} {reason}. Reserved keys used in this request: {', '.join(reserved)}")
    measured = json.dumps(variables, separators=(",", ":"))
    if len(measured.encode()) > MAX_VARIABLES:
        raise _refused(f"{failed} exceeded the 4KB limit. String measured: {measured}")


def _refused(message: str) -> LambdaClientError:
    return LambdaClientError("InvalidParameterValueException", message)
