"""WSGI middleware that refuses calls that a role's policies do not allow.

It checks the programs that a service runs with a role: functions, Batch children, training containers, SageMaker's
data transfers for these, and roles of other accounts that they assume. An account's own user may do everything, and so
may CloudFormation and the roles that a user assumes to deploy (the CDK's), because a grid does not control who deploys
it. EventBridge itself checks permissions before it sends an event to another bus. Other actions inside the server (such
as sending a failed event to a queue) are not checked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from werkzeug.wrappers import Response

from localcloud.credentials import access_keys
from localcloud.credentials.arn import account_of_arn, name_of_arn
from localcloud.iam.encryption_keys import key_policy_allows
from localcloud.iam.evaluation import Verdict, verdict
from localcloud.iam.named_resources import Asked
from localcloud.iam.required_permissions import Permission, required_permissions
from localcloud.iam.resource_denials import POLICIES, resource_denies
from localcloud.iam.resource_policies import allows_principal
from localcloud.iam.roles import policies_of, trust_of
from localcloud.wire.protocols import read_call
from localcloud.wire.record import StartResponse, WsgiApp, buffered
from localcloud.wire.refusals import refusal
from localcloud.wire.signature import Signature, signature_of

_SESSION = "assumed-role/"
_READS = ("s3:GetObject", "s3:GetObjectVersion")
_HEADERS = {"HTTP_X_AMZ_COPY_SOURCE": "CopySource", "HTTP_IF_NONE_MATCH": "IfNoneMatch"}
"""The headers of S3 that permissions depend on, with their names in botocore."""
MISSING_OBJECT: Verdict = "ImplicitlyDenied"
"""The verdict if S3 allows the caller's action but must not reveal whether the object exists."""
KEY_POLICY = "DeniedByKeyPolicy"
RESOURCE_POLICY = "DeniedByResourcePolicy"
_CODES = {"s3": "AccessDenied", "sts": "AccessDenied", "ec2": "UnauthorizedOperation"}
"""The error codes of services that differ from the others."""
_BECAUSE: Mapping[str, str] = {
    "ImplicitlyDenied": "because no identity-based policy allows the {action} action",
    "ExplicitlyDenied": "with an explicit deny in an identity-based policy",
    RESOURCE_POLICY: "with an explicit deny in a resource-based policy",
    KEY_POLICY: "because no resource-based policy allows the {action} action",
}
"""AWS's texts (https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html)."""


class Enforcer:
    """Evaluates every permission that a role's call requires, before the call reaches the service."""

    def __init__(self, application: WsgiApp) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Refuse or forward a request."""
        signature = signature_of(environ)
        principal = access_keys.principal_of(signature.access_key) if signature else None
        if signature is None or principal is None or principal.endswith(".amazonaws.com"):
            return self._application(environ, start_response)
        documents = _policies(principal)
        if documents is None and signature.service not in ("sts", *POLICIES):
            return self._application(environ, start_response)
        permissions = _required(environ, signature)
        decisions = [(need, _decision(principal, documents, need)) for need in permissions]
        if denials := [(need, decision) for need, decision in decisions if decision != "Allowed"]:
            need, decision = denials[0]
            return _denied(environ, signature, _message(principal, need, decision), need)(environ, start_response)
        if signature.service == "ec2" and documents is not None and _is_dry_run(environ):
            message = "Request would have succeeded, but DryRun flag is set."  # EC2's text
            dry = refusal(environ, HTTPStatus.PRECONDITION_FAILED, "DryRunOperation", message, "ec2")
            return dry(environ, start_response)
        reads = documents is not None and permissions and permissions[0].action in _READS
        if documents is not None and reads and not _may_list(documents, permissions[0].resource):
            return self._hide_missing_object(
                environ, start_response, signature, _message(principal, permissions[0], MISSING_OBJECT)
            )
        return self._application(environ, start_response)

    def _hide_missing_object(
        self, environ: dict[str, Any], start_response: StartResponse, signature: Signature, message: str
    ) -> Iterable[bytes]:
        """Read an object for a caller who may not list its bucket, without revealing that the object is missing.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: without s3:ListBucket, a missing key is
        AccessDenied.
        """
        started: list[Any] = []
        chunks = list(self._application(environ, lambda *arguments: started.append(arguments)))
        if started[-1][0].startswith(str(HTTPStatus.NOT_FOUND.value)):
            return _denied(environ, signature, message)(environ, start_response)
        start_response(*started[-1])
        return chunks


def _decision(principal: str, documents: list[dict[str, Any]] | None, need: Permission) -> str:
    """Return "Allowed" or the reason against a permission: policies of the caller, the resource, a role or a key."""
    if resource_denies(need.action, need.resource, _role_of(principal)):
        return RESOURCE_POLICY
    decision = "Allowed" if documents is None else verdict(documents, need.action, need.resource, need.context)
    if decision == "Allowed" and need.action == "sts:AssumeRole" and not _is_trusted(principal, need.resource):
        return "ImplicitlyDenied"  # AWS returns the same error for a role that does not exist
    if decision == "Allowed" and need.action.startswith("kms:") and not _key_policy_allows(principal, need):
        return KEY_POLICY
    return decision


def _required(environ: dict[str, Any], signature: Signature) -> list[Permission]:
    request = buffered(environ)
    if signature.service == "s3":
        request = replace(request, body=b"")  # permissions for S3 do not depend on an object's content
    # Keep whole texts: the payload of a service job names the role to pass, and may exceed the record's limit.
    call = read_call(signature.service, request, whole_texts=True)
    if call is None:
        return [Permission(f"{signature.service}:?", "*", {})]
    # `read_call` reads no headers.
    headers = {member: environ[header] for header, member in _HEADERS.items() if environ.get(header)}
    parameters = {**call.parameters, **headers}
    account = access_keys.account_of(signature.access_key)
    needs = required_permissions(Asked(signature.service, call.action, parameters, signature.region, account))
    keys = access_keys.session_keys(signature.access_key)
    return [need._replace(context={**need.context, **keys}) for need in needs] if keys else needs


def _is_dry_run(environ: dict[str, Any]) -> bool:
    call = read_call("ec2", buffered(environ))
    return call is not None and str(call.parameters.get("DryRun")).lower() == "true"


def _policies(principal: str) -> list[dict[str, Any]] | None:
    """Return the policies of a role session; None for users and the CDK's roles, which may do everything."""
    if _SESSION not in principal:
        return None
    return policies_of(_role_name(principal), account_of_arn(principal))


def _is_trusted(principal: str, role_arn: str) -> bool:
    """Return True if a principal may assume a role; a session counts as its role (aws:PrincipalArn, IAM User Guide)."""
    trust_policy = trust_of(name_of_arn(role_arn), account_of_arn(role_arn))
    return allows_principal(trust_policy, "sts:AssumeRole", _role_of(principal))


def _role_of(principal: str) -> str:
    if _SESSION not in principal:
        return principal
    return f"arn:aws:iam::{account_of_arn(principal)}:role/{_role_name(principal)}"


def _role_name(session: str) -> str:
    role, _, _session_name = session.partition(_SESSION)[2].partition("/")
    return role


def _key_policy_allows(principal: str, need: Permission) -> bool:
    """Return True if the key's policy allows the action to the principal or to its account.

    If it does not, a policy of the principal cannot allow it. Source:
    https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-overview.html
    """
    return key_policy_allows(need.resource, need.action, _role_of(principal), need.context)


def _may_list(documents: list[dict[str, Any]], object_arn: str) -> bool:
    return verdict(documents, "s3:ListBucket", object_arn.partition("/")[0], {}) == "Allowed"


def _message(principal: str, need: Permission, decision: str) -> str:
    cause = _BECAUSE[decision].format(action=need.action)
    return f"User: {principal} is not authorized to perform: {need.action} on resource: {need.resource} {cause}"


def _denied(environ: dict[str, Any], signature: Signature, message: str, need: Permission | None = None) -> Response:
    """Return AccessDeniedException, HTTP 400 or, in REST, 403 (AWS, "Common errors"); S3's code is AccessDenied.

    SNS has codes for itself and for keys (https://docs.aws.amazon.com/sns/latest/api/API_Publish.html#API_Publish_Errors).
    """
    if signature.service == "sns":
        if need and need.action.startswith("kms:"):
            return refusal(environ, HTTPStatus.BAD_REQUEST, "KMSAccessDenied", message, "sns")
        return refusal(environ, HTTPStatus.FORBIDDEN, "AuthorizationError", message, "sns")
    code = _CODES.get(signature.service, "AccessDeniedException")
    status = HTTPStatus.BAD_REQUEST if environ.get("HTTP_X_AMZ_TARGET") else HTTPStatus.FORBIDDEN
    return refusal(environ, status, code, message, signature.service)
