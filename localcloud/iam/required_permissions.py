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


def required_permissions(request: Asked) -> list[Permission]:
    """Return every permission that a call requires; empty if anyone may make the call."""
    prefix = _PREFIXES.get(request.service, request.service)
    call = f"{prefix}:{request.operation}"
    arns_by_kind = named_resources(request)
    if call not in _CALLS:
        of_service = [
            "*",
            *(arn for kind, arns in arns_by_kind.items() if kind.startswith(f"{prefix}:") for arn in arns),
        ]
        passed = {"iam:PassedToService": _PASSED_TO.get(call, "")}
        roles = arns_by_kind.get("iam:role", []) if call in _PASSED_TO else []
        permission = _permission(call, of_service[-1], {}, request)
        return [permission, *(_permission("iam:PassRole", role, dict(passed), request) for role in roles)]
    if request.operation in _COPIES and request.parameters.get("CopySource") is not None:
        return [*_permissions_of_call(call, request, arns_by_kind), *required_permissions(_read_of_source(request))]
    return _permissions_of_call(call, request, arns_by_kind)


def _read_of_source(request: Asked) -> Asked:
    """Return S3's read of the source of a copy, which requires the permissions of GetObject on the source.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
    """
    path, _, version = str(request.parameters["CopySource"]).partition("?versionId=")
    bucket, _, key = unquote(path).lstrip("/").partition("/")
    parameters = {"Bucket": bucket, "Key": key}
    if version:
        parameters["versionId"] = version
    return request._replace(operation="GetObject", parameters=parameters)


def _permissions_of_call(call: str, request: Asked, arns_by_kind: Mapping[str, list[str]]) -> list[Permission]:
    permissions: list[Permission] = []
    for entry in _CALLS[call]:
        if not _applies(entry, request, arns_by_kind):
            continue
        arns = [arn for kind in entry["resources"] for arn in arns_by_kind.get(kind, [])]
        for arn in arns or ["*"]:
            permissions += [
                _permission(entry["action"], arn, context, request) for context in _contexts(entry, request)
            ]
    return permissions


def _contexts(entry: Mapping[str, Any], request: Asked) -> list[Context]:
    """Return the contexts in which a call must have a permission; an empty one stands for the action's own keys."""
    if entry["action"] == "sagemaker:CreateTrainingJob":
        return training_job_contexts(request.parameters)
    return [entry.get("context", {})]


def _applies(entry: Mapping[str, Any], request: Asked, arns_by_kind: Mapping[str, list[str]]) -> bool:
    """Return True if a request has the parameter or the resource that makes a permission necessary."""
    names = {*(name for name, value in request.parameters.items() if value), *arns_by_kind}
    return ("when" not in entry or entry["when"] in names) and entry.get("unless") not in names


def _permission(action: str, resource: str, context: Context, request: Asked) -> Permission:
    if action.startswith("kms:") and resource.startswith("arn:"):
        return Permission(action, resource, {**context, **key_context(resource, request.service)})
    if action in RESOURCE_KEYS and resource.startswith("arn:"):
        return Permission(action, resource, RESOURCE_KEYS[action](request, resource))
    return Permission(action, resource, context or (KEYS[action](request.parameters) if action in KEYS else {}))
