"""Resource-based policies: decides whether a role, a bus, a registry or a key allows a principal."""

from collections.abc import Mapping
from typing import Any

from localcloud.iam.conditions import holds
from localcloud.iam.evaluation import listed, matches
from localcloud.iam.request_keys import Context


def lets(document: Mapping[str, Any], action: str, principal: str, keys: Context | None = None) -> bool:
    """Return True if a policy allows a principal by its ARN or its account, whose IAM must agree.

    Args:
        document: The policy.
        action: For example "sts:AssumeRole".
        principal: The ARN of a role, a user or an account's root.
        keys: The condition keys of the request except those of the principal.
    """
    context: Context = {
        **(keys or {}),
        "aws:PrincipalArn": principal,
        "aws:PrincipalAccount": principal.split(":")[4],
    }
    said = [
        statement["Effect"]
        for statement in listed(document.get("Statement", []))
        if _names(statement.get("Principal", {}), principal)
        and any(matches(pattern.lower(), action.lower()) for pattern in listed(statement["Action"]))
        and holds(statement.get("Condition", {}), context)
    ]
    return "Allow" in said and "Deny" not in said


def _names(said: Any, principal: str) -> bool:
    """Return True if a statement's Principal includes the principal.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
    """
    named = listed(said.get("AWS", [])) if isinstance(said, dict) else [said]
    account = principal.split(":")[4]
    return any(name in ("*", principal, account, f"arn:aws:iam::{account}:root") for name in named)
