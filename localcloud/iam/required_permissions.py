"""Permissions that a call requires: actions, resources and condition keys for IAM.

They are in the table required_permissions.json. `python -m tests.integration.policies.derivation` derives it from
the Service Authorization Reference and from public records of AWS's refusals. Only `named_resources`, the permissions
on the source of a copy, and roles that are passed to EKS, are written by hand. A call that is not in the table requires
the action with its name on the request's resources.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from localcloud.iam.encryption_keys import key_context
from localcloud.iam.named_resources import Asked, named_resources
from localcloud.iam.request_keys import KEYS, Context, training_job_contexts
from localcloud.iam.resource_keys import RESOURCE_KEYS

TABLE = Path(__file__).with_suffix(".json")
_CALLS: Mapping[str, list[Mapping[str, Any]]] = json.loads(TABLE.read_text())["calls"]
_PREFIXES = {"monitoring": "cloudwatch"}
"""The prefixes of actions, by signing name, if they differ."""


_COPIES = ("CopyObject", "UploadPartCopy")
_PASSED_TO = {
    "eks:CreateCluster": "eks.amazonaws.com",
    "eks:CreatePodIdentityAssociation": "pods.eks.amazonaws.com",
    "eks:UpdatePodIdentityAssociation": "pods.eks.amazonaws.com",
}
"""The service that a call passes a role to. The Service Authorization Reference has no dependent action for these
calls, but refusals are recorded: https://github.com/aws-samples/appmod-blueprints/pull/816 (an association) and
https://github.com/kodekloudhub/certified-kubernetes-administrator-course/issues/179 (a cluster). CreateAccessEntry
passes a role only for nodes (https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html)."""


class Permission(NamedTuple):
    """One permission; `context` contains the condition keys for its evaluation."""

    action: str
    resource: str
    context: Context


def required_permissions(asked: Asked) -> list[Permission]:
    """Return every permission that a call requires; empty if anyone may make the call."""
    prefix = _PREFIXES.get(asked.service, asked.service)
    call = f"{prefix}:{asked.operation}"
    named = named_resources(asked)
    if call not in _CALLS:
        of_service = ["*", *(arn for kind, arns in named.items() if kind.startswith(f"{prefix}:") for arn in arns)]
        passed = {"iam:PassedToService": _PASSED_TO.get(call, "")}
        roles = named.get("iam:role", []) if call in _PASSED_TO else []
        own = _permission(call, of_service[-1], {}, asked)
        return [own, *(_permission("iam:PassRole", role, dict(passed), asked) for role in roles)]
    if asked.operation in _COPIES and asked.parameters.get("CopySource") is not None:
        return [*_of_call(call, asked, named), *required_permissions(_read_of_source(asked))]
    return _of_call(call, asked, named)


def _read_of_source(asked: Asked) -> Asked:
    """Return S3's read of the source of a copy, which requires the permissions of GetObject on the source.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
    """
    path, _, version = str(asked.parameters["CopySource"]).partition("?versionId=")
    bucket, _, key = unquote(path).lstrip("/").partition("/")
    parameters = {"Bucket": bucket, "Key": key, **({"versionId": version} if version else {})}
    return asked._replace(operation="GetObject", parameters=parameters)


def _of_call(call: str, asked: Asked, named: Mapping[str, list[str]]) -> list[Permission]:
    entries = [entry for entry in _CALLS[call] if _applies(entry, asked, named)]
    return [
        _permission(entry["action"], arn, context, asked)
        for entry in entries
        for arn in [arn for kind in entry["resources"] for arn in named.get(kind, [])] or ["*"]
        for context in _contexts(entry, asked)
    ]


def _contexts(entry: Mapping[str, Any], asked: Asked) -> list[Context]:
    """Return the contexts in which a call must have a permission; an empty one stands for the action's own keys."""
    if entry["action"] == "sagemaker:CreateTrainingJob":
        return training_job_contexts(asked.parameters)
    return [entry.get("context", {})]


def _applies(entry: Mapping[str, Any], asked: Asked, named: Mapping[str, list[str]]) -> bool:
    """Return True if a request has the parameter or the resource that makes a permission necessary."""
    present = {*(name for name, value in asked.parameters.items() if value), *named}
    return ("when" not in entry or entry["when"] in present) and entry.get("unless") not in present


def _permission(action: str, resource: str, context: Context, asked: Asked) -> Permission:
    if action.startswith("kms:") and resource.startswith("arn:"):
        return Permission(action, resource, {**context, **key_context(resource, asked.service)})
    if action in RESOURCE_KEYS and resource.startswith("arn:"):
        return Permission(action, resource, RESOURCE_KEYS[action](asked, resource))
    return Permission(action, resource, context or (KEYS[action](asked.parameters) if action in KEYS else {}))
