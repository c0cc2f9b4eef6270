"""The policies of a role, as moto keeps them."""

import json
from functools import lru_cache
from typing import Any

from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends

from localcloud.account import account
from localcloud.iam.evaluation import listed


def policies_of(role_name: str) -> list[dict[str, Any]] | None:
    """The policies of a role; None for one that also users may assume, and for one that is gone."""
    try:
        role = iam_backends[account()]["aws"].get_role(role_name)
    except NotFoundException:
        return None
    trust = role.assume_role_policy_document
    if not _for_services_only(trust if isinstance(trust, str) else json.dumps(trust)):
        return None
    managed = [policy.document for policy in role.managed_policies.values()]
    return [_read(document) for document in (*role.policies.values(), *managed)]


@lru_cache(maxsize=1024)
def _read(document: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document)
    return found


@lru_cache(maxsize=1024)
def _for_services_only(trust: str) -> bool:
    principals = [statement.get("Principal", {}) for statement in listed(json.loads(trust)["Statement"])]
    return bool(principals) and all(
        isinstance(principal, dict) and set(principal) == {"Service"} for principal in principals
    )
