"""Resource policies, as far as EventBridge needs them: may the service act on this resource for this rule?"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

_SERVICE = "events.amazonaws.com"


def allows(statements: Iterable[dict[str, Any]], action: str, source_arn: str) -> bool:
    """Whether a resource policy lets EventBridge do something for a rule.

    Reads Effect, Principal, Action and a condition on aws:SourceArn; any other condition is taken as met. A Deny on
    `aws:SecureTransport` therefore does not count, nor does any other Deny.

    Args:
        statements: The policy's statements.
        action: E.g. "sqs:SendMessage".
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
