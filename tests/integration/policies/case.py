"""Cases of the policy matrix: a call by a role, and IAM's expected verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from localcloud.iam.request_keys import Context
from tests.integration.policies.grid import ACCOUNT

ALLOWED, IMPLICITLY, EXPLICITLY = "Allowed", "ImplicitlyDenied", "ExplicitlyDenied"
ACTION, RESOURCE = "the action", "the resource"
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}
"""A key policy that delegates to the account (tests/integration/stacks/test_keys.py); IAM policies require it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One call of a role, or (`by`) of a service that assumes the role.

    Attributes:
        role: Role whose policies decide; a key of `grid.ROLES`.
        phrase: The call, as a phrase that continues "the role may", or "may not".
        expected: The expected verdict.
        breaks: The only rule that a denied call breaks: the action, the resource, or a condition as "operator key";
            empty for an allowed call.
        by: The service that assumes the role; empty if the role itself makes the call.
    """

    role: str
    phrase: str
    action: str
    resource: str
    context: Mapping[str, str | list[str]] = field(default_factory=dict)
    expected: str = ALLOWED
    breaks: str = ""
    by: str = ""

    def __str__(self) -> str:
        return f"{self.role}: {self.action}: {self.phrase}"

    def request(self, policies: str) -> dict[str, object]:
        """Return the simulator's input; `policies` is the key of the role's policies in it."""
        return {
            "policies": policies,
            "principal": self.by or f"arn:aws:sts::{ACCOUNT}:assumed-role/{self.role.replace(' ', '-')}/session",
            "action": self.action,
            "resource": self.resource,
            "account": ACCOUNT,
            "context": dict(self.context),
            **({"trust": KEY_POLICY} if self.action.startswith("kms:") else {}),
        }


class Caller:
    """Creates the cases of one role."""

    def __init__(self, role: str) -> None:
        self._role = role

    def may(self, phrase: str, action: str, resource: str, context: Context | None = None) -> Case:
        return Case(role=self._role, phrase=phrase, action=action, resource=resource, context=context or {})

    def may_not(
        self,
        phrase: str,
        action: str,
        resource: str,
        context: Context | None = None,
        *,
        breaks: str = ACTION,
        expected: str = IMPLICITLY,
    ) -> Case:
        return Case(
            role=self._role,
            phrase=phrase,
            action=action,
            resource=resource,
            context=context or {},
            expected=expected,
            breaks=breaks,
        )
