"""Policies of a role, from moto's IAM."""

import json
from functools import lru_cache
from typing import Any

from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends

OF_THE_CDK = "cdk-"
"""Prefix of the roles with which a user of the CDK deploys; the bootstrap stack creates them."""


def policies_of(role_name: str, account_id: str) -> list[dict[str, Any]] | None:
    """Return the policies of a role; None for the CDK's deployment roles and for a role that does not exist."""
    role = _role(role_name, account_id)
    if role is None or role_name.startswith(OF_THE_CDK):
        return None
    return [_read(document) for document in (*role.policies.values(), *managed_documents(role))]


def managed_documents(holder: Any) -> list[str]:
    """Return the documents of the managed policies of moto's role or user, each in its default version.

    The CDK creates managed policies for a role whose inline policies would be too long.
    """
    versions = [version for policy in holder.managed_policies.values() for version in policy.versions]
    return [version.document for version in versions if version.is_default]


def trust_of(role_name: str, account_id: str) -> dict[str, Any]:
    """Return a role's trust policy; an empty policy if the role does not exist."""
    role = _role(role_name, account_id)
    trust = role.assume_role_policy_document if role else "{}"
    return _read(trust) if isinstance(trust, str) else dict(trust)


def _role(role_name: str, account_id: str) -> Any:
    try:
        return iam_backends[account_id]["aws"].get_role(role_name)
    except NotFoundException:
        return None


@lru_cache(maxsize=1024)
def _read(document: str) -> dict[str, Any]:
    policy: dict[str, Any] = json.loads(document)
    return policy
