"""Uses of condition keys: in the statements of a claim, and in the templates of the stacks."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.integration.stacks.templates import as_list, flat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.integration.stacks.templates import Template

Statement = dict[str, Any]
NO_SUCH_KEY = "traingrid:NoSuchKey"
_REGION = re.compile(r"\.[a-z]{2}(-[a-z]+)+-\d\b")
_ARN = re.compile(r"arn:[^:]*:(?P<service>[^:]*):[^:]*:[^:]*:(?P<kind>[^/:*]*)")
_TOKEN = re.compile(r"<AWS::\w+>")
_REFERENCE = re.compile(r"<(?P<resource>\w+)\.Arn>")


class Use(NamedTuple):
    """One use of a condition key: an assumption about requests that AWS sends or receives.

    Attributes:
        effect: Allow or Deny.
        principal: Service that a resource's policy trusts, without a Region, "accounts" for principals of an account,
            "*" for all; empty in a role's permissions.
        action: One action; all actions of a statement for a service, which AWS documents as one statement.
        operator: The operator, for example "StringEquals".
        key: The condition key.
        about: The kind of the value, if the key has values of several kinds: service and resource type of an ARN, name
            of a service, or the value of Null.
    """

    effect: str
    principal: str
    action: str
    operator: str
    key: str
    about: str

    def __str__(self) -> str:
        """Return the use as one line."""
        return " | ".join(self)

    def covers(self, other: Use) -> bool:
        """Return True if this use shows that AWS sends the key of the other one, whose action may be a pattern."""
        return self._replace(action=other.action) == other and fnmatchcase(self.action, other.action)


def of_templates(templates: Mapping[str, Template]) -> set[Use]:
    """Return the uses in all policies of synthesized stacks."""
    return {
        use
        for template in templates.values()
        for resource in template["Resources"].values()
        for statement in _statements(resource.get("Properties", {}))
        for use in of_statement(statement, template)
    }


def _statements(value: Any) -> Iterator[Statement]:
    """Yield all policy statements in the properties of a resource."""
    if isinstance(value, dict):
        if "Effect" in value:
            yield value
        for item in value.values():
            yield from _statements(item)
    elif isinstance(value, list):
        for item in value:
            yield from _statements(item)
    else:
        assert '"Effect"' not in str(value), f"a policy as text, which this function does not read: {value}"


def of_statement(statement: Mapping[str, Any], template: Template | None = None) -> set[Use]:
    """Return the uses in a statement; `template` resolves its references."""
    principal = _principal(statement)
    actions = as_list(statement["Action"])
    return {
        Use(statement["Effect"], principal, action, operator, key, about)
        for action in ([" ".join(sorted(actions))] if _is_service(principal) else actions)
        for operator, values in statement.get("Condition", {}).items()
        for key, value in values.items()
        for about in {_about(operator, item, template) for item in as_list(value)}
    }


def without(statement: Mapping[str, Any], use: Use) -> list[Statement]:
    """Return a statement with a key that does not exist for one use: split if it has other actions."""
    if use not in of_statement(statement):
        return [dict(statement)]
    condition = {operator: dict(values) for operator, values in statement["Condition"].items()}
    condition[use.operator][NO_SUCH_KEY] = condition[use.operator].pop(use.key)
    changed = {**statement, "Condition": condition}
    others = [action for action in as_list(statement["Action"]) if action != use.action]
    if _is_service(use.principal) or not others:
        return [changed]
    return [{**changed, "Action": [use.action]}, {**statement, "Action": others}]


def _principal(statement: Mapping[str, Any]) -> str:
    match statement.get("Principal"):
        case None:
            return ""
        case {"Service": service}:
            return _REGION.sub("", flat(service)).removesuffix(".amazonaws.com")
        case "*" | {"AWS": "*"}:
            return "*"
    return "accounts"


def _is_service(principal: str) -> bool:
    return principal not in ("", "*", "accounts")


def _about(operator: str, value: Any, template: Template | None) -> str:
    text = _TOKEN.sub("x", flat(value)) if isinstance(value, dict) else str(value).lower()
    if operator == "Null":
        return text
    if template and (reference := _REFERENCE.fullmatch(text)):
        _, service, kind = template["Resources"][reference["resource"]]["Type"].split("::")
        return f"{service}:{kind}".lower()
    if arn := _ARN.match(text):
        return f"{arn['service']}:{arn['kind']}"
    return text.partition(".")[0] if text.endswith(".amazonaws.com") else ""
