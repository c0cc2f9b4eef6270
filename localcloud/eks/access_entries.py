"""Access entries: the principals of IAM that may use a cluster, with their Kubernetes user name, groups and policies.

The rules are those of https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html and
https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html. In AWS a change may take several seconds to be
effective; here it is effective at once.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.eks import errors
from localcloud.eks.access_policies import POLICIES, Scope, policy_arn
from localcloud.eks.principals import Principal, principal

_RESERVED = ("system:", "eks:", "aws:", "amazon:", "iam:")
_SERVICE_ROLE = ":role/aws-service-role/"


@dataclass
class AccessEntry:
    """An access entry.

    Attributes:
        principal: The principal at the time of the creation.
        username: The template of the Kubernetes user name.
        groups: The Kubernetes groups.
        policies: The scope of each associated access policy, by the policy's ARN.
        created: Time of the creation, in seconds since 1970.
        modified: Time of the last change.
    """

    arn: str
    principal_arn: str
    principal: Principal
    username: str
    groups: list[str]
    tags: dict[str, str]
    policies: dict[str, Scope] = field(default_factory=dict)
    created: float = field(default_factory=time.time)
    modified: float = field(default_factory=time.time)

    def described(self, cluster: str) -> dict[str, Any]:
        """Return the entry in the form of DescribeAccessEntry."""
        return {
            "clusterName": cluster,
            "principalArn": self.principal_arn,
            "kubernetesGroups": list(self.groups),
            "accessEntryArn": self.arn,
            "createdAt": self.created,
            "modifiedAt": self.modified,
            "tags": self.tags,
            "username": self.username,
            "type": "STANDARD",
        }

    def user_name(self, session: str) -> str:
        """Return the Kubernetes user name of a session of the principal."""
        name = self.username.replace("{{SessionNameRaw}}", session)
        return name.replace("{{SessionName}}", session.replace("@", "-"))


def made(cluster_arn: str, request: Mapping[str, Any]) -> AccessEntry:
    """Return a new access entry for a request of CreateAccessEntry.

    Raises:
        RefusedError: EKS refuses the request.
        NotImplementedError: The entry is for nodes.
    """
    arn = str(request["principalArn"])
    if _SERVICE_ROLE in arn:  # the text: https://github.com/hashicorp/terraform-provider-aws/issues/36447
        text = "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role"
        raise errors.invalid_parameter(text)
    owner = principal(arn)
    if owner is None:  # the text: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2969
        raise errors.invalid_parameter("The specified principalArn is invalid: invalid principal.")
    kind = request.get("type") or "STANDARD"
    if kind != "STANDARD":
        message = f"The access entry type {kind} has not been implemented"
        raise NotImplementedError(message)
    parts = cluster_arn.split(":")
    name = f"{parts[5].partition('/')[2]}/{owner.kind}/{owner.account}/{owner.name}/{uuid.uuid4()}"
    return AccessEntry(
        arn=":".join([*parts[:5], f"access-entry/{name}"]),
        principal_arn=arn,
        principal=owner,
        username=_username(request.get("username"), owner, arn),
        groups=_groups(request.get("kubernetesGroups") or []),
        tags=dict(request.get("tags") or {}),
    )


def update(entry: AccessEntry, request: Mapping[str, Any]) -> None:
    """Change user name and groups as UpdateAccessEntry does."""
    groups = None if request.get("kubernetesGroups") is None else _groups(request["kubernetesGroups"])
    if request.get("username"):
        entry.username = _username(request["username"], entry.principal, entry.principal_arn)
    if groups is not None:
        entry.groups = groups
    entry.modified = time.time()


def associate(entry: AccessEntry, request: Mapping[str, Any]) -> dict[str, Any]:
    """Associate an access policy, or change its scope; return the association."""
    arn, scope = str(request["policyArn"]), request["accessScope"]
    if arn not in {policy_arn(name) for name in POLICIES}:
        raise errors.invalid_parameter(
            f"The specified policyArn is invalid: {arn} is not a policy that localcloud has."
        )
    kind = scope.get("type") or "cluster"
    namespaces = tuple(scope.get("namespaces") or ())
    if kind not in ("cluster", "namespace") or (kind == "namespace") is not bool(namespaces):
        text = (
            "The specified accessScope is invalid: the type must be cluster without namespaces, or namespace with them."
        )
        raise errors.invalid_parameter(text)
    associated = entry.policies.get(arn)
    entry.policies[arn] = Scope(namespaces, associated.associated if associated else time.time(), time.time())
    return association(arn, entry.policies[arn])


def association(arn: str, scope: Scope) -> dict[str, Any]:
    """Return the association of a policy in the form of ListAssociatedAccessPolicies."""
    kind = "namespace" if scope.namespaces else "cluster"
    return {
        "policyArn": arn,
        "accessScope": {"type": kind, "namespaces": list(scope.namespaces)},
        "associatedAt": scope.associated,
        "modifiedAt": scope.modified,
    }


def _username(given_name: Any, owner: Principal, arn: str) -> str:
    if not given_name:
        session = f"arn:aws:sts::{owner.account}:assumed-role/{owner.name}/{{{{SessionName}}}}"
        return session if owner.kind == "role" else arn
    name = str(given_name)
    for start in _RESERVED:
        if name.startswith(start):  # the text: https://github.com/aws-ia/terraform-aws-eks-blueprints/pull/1920
            raise errors.invalid_parameter(f"The username must not begin with {start}")
    if "{{SessionName" in name and ":" not in name.partition("{{SessionName")[0]:
        raise errors.invalid_parameter("The username must include a colon before {{SessionName}}")
    return name


def _groups(groups: list[str]) -> list[str]:
    for name in groups:
        for start in _RESERVED:
            if name.startswith(
                start
            ):  # the text: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2915
                text = f"The kubernetes group name {name} is invalid, it cannot start with {start}"
                raise errors.invalid_parameter(text)
    return list(groups)
