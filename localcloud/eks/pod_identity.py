"""Pod Identity: associations of a service account with a role, and the credentials that its pods get.

A role must trust pods.eks.amazonaws.com with two actions
(https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html): EKS refuses another role when the association is
created, and does not give credentials if a condition of the trust is not met. Policies cannot use the tags of the
session (`aws:PrincipalTag`), because localcloud does not evaluate them.
"""

import random
import string
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.credentials.arn import account_of_arn, name_of_arn, region_of_arn
from localcloud.credentials.environments import keyless_environment, temporary_credentials
from localcloud.eks import errors
from localcloud.eks.principals import principal
from localcloud.iam.request_keys import Context
from localcloud.iam.resource_policies import allows_service, names_service
from localcloud.iam.roles import trust_of

SERVICE = "pods.eks.amazonaws.com"
_ACTIONS = ("sts:AssumeRole", "sts:TagSession")
_NOT_BUILT = ("targetRoleArn", "policy")


@dataclass
class Association:
    """An association.

    Attributes:
        role: The ARN of the role.
        with_tags: True if the session has tags with the cluster, namespace and service account.
        created: Time of the creation, in seconds since 1970.
        modified: Time of the last change.
    """

    identifier: str
    arn: str
    namespace: str
    service_account: str
    role: str
    tags: dict[str, str]
    with_tags: bool = True
    created: float = field(default_factory=time.time)
    modified: float = field(default_factory=time.time)

    def summary(self, cluster: str) -> dict[str, Any]:
        """Return the association in the form of ListPodIdentityAssociations."""
        return {
            "clusterName": cluster,
            "namespace": self.namespace,
            "serviceAccount": self.service_account,
            "associationArn": self.arn,
            "associationId": self.identifier,
        }

    def described(self, cluster: str) -> dict[str, Any]:
        """Return the association in the form of DescribePodIdentityAssociation."""
        return {
            **self.summary(cluster),
            "roleArn": self.role,
            "tags": self.tags,
            "createdAt": self.created,
            "modifiedAt": self.modified,
            "disableSessionTags": not self.with_tags,
        }


def made(cluster_arn: str, request: Mapping[str, Any]) -> Association:
    """Return a new association for a request of CreatePodIdentityAssociation.

    Raises:
        RefusedError: EKS refuses the request.
        NotImplementedError: localcloud lacks a feature.
    """
    _require_built(request)
    parts = cluster_arn.split(":")
    _check_role(str(request["roleArn"]), parts[4])
    identifier = "a-" + "".join(random.choices(string.ascii_lowercase + string.digits, k=17))  # noqa: S311 - no secret
    return Association(
        identifier=identifier,
        arn=":".join([*parts[:5], f"podidentityassociation/{parts[5].partition('/')[2]}/{identifier}"]),
        namespace=str(request["namespace"]),
        service_account=str(request["serviceAccount"]),
        role=str(request["roleArn"]),
        tags=dict(request.get("tags") or {}),
        with_tags=not request.get("disableSessionTags"),
    )


def update(association: Association, request: Mapping[str, Any]) -> None:
    """Change role and session tags as UpdatePodIdentityAssociation does."""
    _require_built(request)
    if role := request.get("roleArn"):
        _check_role(str(role), account_of_arn(association.arn))
        association.role = str(role)
    if request.get("disableSessionTags") is not None:
        association.with_tags = not request["disableSessionTags"]
    association.modified = time.time()


def environment(association: Association | None, cluster_arn: str, endpoint_url: str) -> dict[str, str]:
    """Return the AWS variables of a container in a pod.

    Args:
        association: The association of the pod's service account.
        endpoint_url: The address of this server.

    Returns:
        The variables; without an association, or if the role does not trust EKS, they contain no keys.
    """
    region = region_of_arn(cluster_arn)
    variables = keyless_environment(endpoint_url, region)
    if association and _trusts(association, cluster_arn):
        variables |= temporary_credentials(region, association.role)
    return variables


def _trusts(association: Association, cluster_arn: str) -> bool:
    """Return True if the role trusts EKS in the request that it makes for a pod.

    Its tags: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html
    """
    tags = {
        "eks-cluster-arn": cluster_arn,
        "eks-cluster-name": cluster_arn.partition("/")[2],
        "kubernetes-namespace": association.namespace,
        "kubernetes-service-account": association.service_account,
    }
    keys: Context = {f"aws:RequestTag/{name}": value for name, value in tags.items() if association.with_tags}
    _, _, _, _, account, role = association.role.split(":", 5)
    trust = trust_of(name_of_arn(role), account)
    return all(allows_service(trust, action, SERVICE, cluster_arn, keys) for action in _ACTIONS)


def _check_role(arn: str, account: str) -> None:
    owner = principal(arn)
    if owner is None or owner.kind != "role" or owner.account != account:
        raise errors.invalid_parameter(f"Role provided in the request does not exist: {arn}")
    trust = trust_of(owner.name, account)
    if not all(names_service(trust, action, SERVICE) for action in _ACTIONS):
        # the text: https://github.com/hashicorp/terraform-provider-aws/issues/41483
        raise errors.invalid_parameter("Trust policy of the role provided is invalid")


def _require_built(request: Mapping[str, Any]) -> None:
    if fields := [name for name in _NOT_BUILT if request.get(name)]:
        message = f"{fields[0]} of a Pod Identity association has not been implemented"
        raise NotImplementedError(message)
