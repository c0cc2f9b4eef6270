"""What a case of the policy matrix is: somebody asks for something, and IAM must say so."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from localcloud.iam.request_keys import Context
from tests.policies.grid import ACCOUNT

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
"""What a key's policy says of its account (tests/stacks/test_keys.py): without it no role's own policies count."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One call of a role, or (`by`) of a service that would assume it.

    Attributes:
        role: Whose policies decide; one of `grid.ROLES`.
        says: What is asked for, as a sentence would go on after "the role may", or may not.
        expected: The verdict.
        breaks: What alone is wrong with a call that is denied: the action, the resource, or a condition as "operator
            key"; empty for one that is allowed.
        by: The service that wants to assume the role; empty where the role itself calls.
    """

    role: str
    says: str
    action: str
    resource: str
    context: Mapping[str, str | list[str]] = field(default_factory=dict)
    expected: str = ALLOWED
    breaks: str = ""
    by: str = ""

    def __str__(self) -> str:
        return f"{self.role}: {self.action}: {self.says}"

    def request(self, policies: str) -> dict[str, object]:
        """Return what the simulator is asked; `policies` is the name under which it gets the role's."""
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
    """Makes the cases of one role."""

    def __init__(self, role: str) -> None:
        self._role = role

    def may(self, says: str, action: str, resource: str, context: Context | None = None) -> Case:
        return Case(role=self._role, says=says, action=action, resource=resource, context=context or {})

    def may_not(
        self,
        says: str,
        action: str,
        resource: str,
        context: Context | None = None,
        *,
        breaks: str = ACTION,
        expected: str = IMPLICITLY,
    ) -> Case:
        return Case(
            role=self._role,
            says=says,
            action=action,
            resource=resource,
            context=context or {},
            expected=expected,
            breaks=breaks,
        )
