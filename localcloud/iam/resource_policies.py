"""Resource-based policies: decides whether a role, a queue, a registry or a key allows a principal or a service."""

from collections.abc import Callable, Mapping
from typing import Any

from localcloud.credentials.arn import account_of_arn
from localcloud.iam.conditions import conditions_hold
from localcloud.iam.evaluation import listed, matches
from localcloud.iam.request_keys import Context


def allows_principal(document: Mapping[str, Any], action: str, principal: str, keys: Context | None = None) -> bool:
    """Return True if a policy allows a principal by its ARN or its account, whose IAM must agree.

    Args:
        document: The policy.
        action: For example "sts:AssumeRole".
        principal: The ARN of a role, a user or an account's root.
        keys: The condition keys of the request except the principal's keys.
    """
    context: Context = {
        **(keys or {}),
        "aws:PrincipalArn": principal,
        "aws:PrincipalAccount": account_of_arn(principal),
    }
    return _allows(document, action, lambda principals: _names(principals, principal), context)


def allows_service(
    document: Mapping[str, Any], action: str, service: str, source_arn: str, keys: Context | None = None
) -> bool:
    """Return True if a policy allows a service to act for a resource, for example to assume a role.

    Args:
        document: The policy.
        action: For example "sts:AssumeRole".
        service: For example "events.amazonaws.com".
        source_arn: The resource; the request's context contains it and its account
            (https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html).
        keys: Other condition keys of the request.
    """
    context: Context = {
        **(keys or {}),
        "aws:SourceArn": source_arn,
        "aws:SourceAccount": account_of_arn(source_arn),
        "aws:SecureTransport": "true",
    }
    return _allows(document, action, lambda principals: _is_service(principals, service), context)


def denies(document: Mapping[str, Any], action: str, principal: str, keys: Context) -> bool:
    """Return True if a statement of a policy denies a principal an action, like `allows_principal`."""
    statements = [statement for statement in listed(document.get("Statement", [])) if statement["Effect"] == "Deny"]
    allowing = [{**statement, "Effect": "Allow"} for statement in statements]
    return bool(allowing) and allows_principal({"Statement": allowing}, action, principal, keys)


def names_service(document: Mapping[str, Any], action: str, service: str) -> bool:
    """Return True if a statement of a policy allows a service an action, under any conditions."""
    statements = [{**statement, "Condition": {}} for statement in listed(document.get("Statement", []))]
    allowing = [statement for statement in statements if statement["Effect"] == "Allow"]
    return _allows({"Statement": allowing}, action, lambda principals: _is_service(principals, service), {})


def _allows(document: Mapping[str, Any], action: str, names: Callable[[Any], bool], context: Context) -> bool:
    effects = [
        statement["Effect"]
        for statement in listed(document.get("Statement", []))
        if names(statement.get("Principal", {}))
        and any(matches(pattern.lower(), action.lower()) for pattern in listed(statement["Action"]))
        and conditions_hold(statement.get("Condition", {}), context)
    ]
    return "Allow" in effects and "Deny" not in effects


def _is_service(principals: Any, service: str) -> bool:
    """Return True if a statement's Principal includes the service; everyone ("*") includes it."""
    if not isinstance(principals, dict):
        return bool(principals == "*")
    return service in listed(principals.get("Service", [])) or "*" in listed(principals.get("AWS", []))


def _names(element: Any, principal: str) -> bool:
    """Return True if a statement's Principal includes the principal.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
    """
    principals = listed(element.get("AWS", [])) if isinstance(element, dict) else [element]
    account = account_of_arn(principal)
    return any(name in ("*", principal, account, f"arn:aws:iam::{account}:root") for name in principals)
