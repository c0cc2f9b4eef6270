"""Trust policies of roles that a service assumes: which service may, and on behalf of which resource."""

from collections.abc import Mapping
from typing import Any

from localcloud.iam.conditions import holds
from localcloud.iam.evaluation import listed, matches


def service_may_assume(trust: Mapping[str, Any], service: str, source_arn: str) -> bool:
    """Return True if a role's trust policy lets a service assume it for a resource.

    Args:
        trust: The role's trust policy.
        service: E.g. "events.amazonaws.com".
        source_arn: The resource; with its account it is in the request's context
            (https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html).
    """
    context: dict[str, str | list[str]] = {"aws:SourceArn": source_arn, "aws:SourceAccount": source_arn.split(":")[4]}
    effects = [
        statement["Effect"]
        for statement in listed(trust.get("Statement", []))
        if _is_service(statement.get("Principal", {}), service)
        and any(matches(pattern.lower(), "sts:assumerole") for pattern in listed(statement["Action"]))
        and holds(statement.get("Condition", {}), context)
    ]
    return "Allow" in effects and "Deny" not in effects


def _is_service(principal: Any, service: str) -> bool:
    return principal == "*" or (isinstance(principal, dict) and service in listed(principal.get("Service", [])))
