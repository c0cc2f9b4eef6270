"""Resource policies for EventBridge: decides whether the service may act on a resource for a rule."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

_SERVICE = "events.amazonaws.com"


def allows(statements: Iterable[dict[str, Any]], action: str, source_arn: str) -> bool:
    """Return True if a resource policy allows EventBridge an action for a rule.

    It evaluates Effect, Principal, Action and a condition on aws:SourceArn; it assumes that any other condition is met.
    Deny statements have no effect, including a Deny on `aws:SecureTransport`.

    Args:
        statements: The policy's statements.
        action: For example "sqs:SendMessage".
        source_arn: ARN of the rule.
    """
    return any(_fits(statement, action, source_arn) for statement in statements)


def _fits(statement: dict[str, Any], action: str, source_arn: str) -> bool:
    principal = statement.get("Principal", {})
    services = ["*"] if principal == "*" else _listed(principal.get("Service", principal.get("AWS", [])))
    if statement.get("Effect") != "Allow" or not {_SERVICE, "*"} & set(services):
        return False
    if not any(fnmatchcase(action.lower(), allowed.lower()) for allowed in _listed(statement.get("Action", []))):
        return False
    return all(
        any(fnmatchcase(source_arn, pattern) for pattern in _listed(patterns))
        for condition in statement.get("Condition", {}).values()
        for key, patterns in condition.items()
        if key.lower() == "aws:sourcearn"
    )


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
