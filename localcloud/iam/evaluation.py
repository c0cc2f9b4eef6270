"""Evaluation of identity-based policies for a request in one account.

An explicit Deny takes precedence, then an Allow; all other requests are denied
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html).
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from localcloud.iam.conditions import conditions_hold
from localcloud.iam.request_keys import Context

Verdict = Literal["Allowed", "ImplicitlyDenied", "ExplicitlyDenied"]


def verdict(documents: Iterable[Mapping[str, Any]], action: str, resource: str, context: Context) -> Verdict:
    """Return the decision of policies on a request.

    Args:
        documents: The caller's policies.
        action: For example "s3:GetObject".
        resource: The ARN, or "*" for an action without a resource.
        context: The condition keys of the request.

    Raises:
        UnknownOperatorError: If a policy has a condition operator that localcloud does not support.
    """
    allowed = False
    for document in documents:
        for statement in listed(document["Statement"]):
            if not _is_about(statement, action, resource) or not conditions_hold(
                statement.get("Condition", {}), context
            ):
                continue
            if statement["Effect"] == "Deny":
                return "ExplicitlyDenied"
            allowed = True
    return "Allowed" if allowed else "ImplicitlyDenied"


def _is_about(statement: Mapping[str, Any], action: str, resource: str) -> bool:
    """Return True if a statement covers an action (case-insensitive, as in IAM) and a resource."""
    if "NotAction" in statement:
        is_named = not any(matches(pattern.lower(), action.lower()) for pattern in listed(statement["NotAction"]))
    else:
        is_named = any(matches(pattern.lower(), action.lower()) for pattern in listed(statement["Action"]))
    if not is_named:
        return False
    if "NotResource" in statement:
        return not any(matches(pattern, resource) for pattern in listed(statement["NotResource"]))
    return any(matches(pattern, resource) for pattern in listed(statement["Resource"]))


def matches(pattern: str, text: str) -> bool:
    """Return True if a text matches an IAM pattern: "*" is any text, "?" one character; all others are literal."""
    return pattern == text or (("*" in pattern or "?" in pattern) and _expression(pattern).fullmatch(text) is not None)


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def listed(value: Any) -> list[Any]:
    """Return a policy value as a list, because IAM accepts a single entry without brackets."""
    return value if isinstance(value, list) else [value]
