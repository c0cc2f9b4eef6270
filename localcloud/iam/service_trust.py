"""Trust policies for services: decides whether a service may assume a role on behalf of a resource."""

from collections.abc import Mapping
from typing import Any

from localcloud.iam.conditions import holds
from localcloud.iam.evaluation import listed, matches


def service_may_assume(trust: Mapping[str, Any], service: str, source_arn: str) -> bool:
    """Return True if a role's trust policy allows a service to assume it for a resource.

    Args:
        trust: The role's trust policy.
        service: For example "events.amazonaws.com".
        source_arn: The resource; the request's context contains it and its account
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
