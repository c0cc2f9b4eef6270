"""Authorizer: decides whether the sender of a request may use a cluster.

A token's principal needs an access entry, otherwise the answer is 401. Then the cluster's roles or an access policy of
the entry must allow the request, otherwise the answer is 403.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localcloud.eks.access_policies import policy_allows
from localcloud.eks.principals import caller
from localcloud.eks.token import TokenError, arn_of
from localcloud.kubernetes.rbac import AUTHENTICATED, Access, User, access_to, is_bound, refused
from localcloud.kubernetes.status import unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localcloud.eks.access_entries import AccessEntry
    from localcloud.kubernetes.paths import Target
    from localcloud.kubernetes.store import Store


class Authorizer:
    """Authorizer of one cluster.

    Attributes:
        store: The objects of the cluster, among them its roles.
    """

    store: Store

    def __init__(self, entries: Mapping[str, AccessEntry], cluster: str, port: int) -> None:
        self._entries, self._cluster, self._port = entries, cluster, port

    def admit(self, token: str, verb: str, target: Target | None) -> None:
        """Accept or refuse a request.

        Every user may read the discovery
        (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles).

        Args:
            target: The target; None for the discovery and for paths that are not served.

        Raises:
            ApiError: The request is refused.
        """
        entry, user = self.identify(token)
        if target is None:
            return
        access = access_to(target, verb)
        if not self.allows(entry, user, access):
            raise refused(user, target, access)

    def identify(self, token: str) -> tuple[AccessEntry, User]:
        """Return the access entry of a token's principal, and its user.

        Raises:
            ApiError: The token is not valid, or its principal has no access entry.
        """
        try:
            identity = caller(arn_of(token, self._cluster, self._port))
        except TokenError as error:
            raise unauthorized() from error
        entries = [
            entry for entry in list(self._entries.values()) if identity and entry.principal == identity.principal
        ]
        if not identity or not entries:
            raise unauthorized()
        groups = frozenset((*entries[0].groups, AUTHENTICATED))
        return entries[0], User(name=entries[0].user_name(identity.session), groups=groups)

    def allows(self, entry: AccessEntry, user: User, access: Access) -> bool:
        """Return True if a role of the cluster or an access policy allows an access."""
        policies = list(entry.policies.items())
        return any(policy_allows(arn, scope, access) for arn, scope in policies) or is_bound(self.store, user, access)
