"""WSGI middleware that refuses what a role's policies do not allow.

It decides for the programs that a service runs with a role: functions, Batch children, training containers, what
SageMaker moves for these, and whom of another account they become. An account's own user may do everything, and so may
CloudFormation and the roles that a user assumes to deploy (the CDK's): who can deploy a grid is not the grid's to say.
EventBridge asks for itself before it sends an event to another bus; what else happens inside the server (a lost event
on its way to a queue) asks nobody.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from werkzeug.wrappers import Response

from localcloud import isolation
from localcloud.iam.encryption_keys import key_policy_lets
from localcloud.iam.evaluation import Verdict, verdict
from localcloud.iam.named_resources import Asked
from localcloud.iam.required_permissions import Permission, required_permissions
from localcloud.iam.roles import policies_of, trust_of
from localcloud.iam.trust import lets
from localcloud.protocols import read_call
from localcloud.record import StartResponse, WsgiApp, buffered
from localcloud.refusals import refusal
from localcloud.signature import Signature, signature_of

_SESSION = "assumed-role/"
_READS = ("s3:GetObject", "s3:GetObjectVersion")
UNSAID: Verdict = "ImplicitlyDenied"
"""What S3 says to somebody whose own action is allowed, but who may not know whether there is such an object."""
KEY_POLICY = "DeniedByKeyPolicy"
_BECAUSE: Mapping[str, str] = {
    "ImplicitlyDenied": "because no identity-based policy allows the {action} action",
    "ExplicitlyDenied": "with an explicit deny in an identity-based policy",
    KEY_POLICY: "because no resource-based policy allows the {action} action",
}
"""AWS's words (https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html)."""


class Enforcer:
    """Asks IAM for every permission that a call of a role takes, before the call reaches the service."""

    def __init__(self, application: WsgiApp) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Refuse a request, or pass it on."""
        signature = signature_of(environ)
        principal = isolation.principal_of(signature.access_key) if signature else None
        if signature is None or principal is None or principal.endswith(".amazonaws.com"):
            return self._application(environ, start_response)
        documents = _policies(principal)
        if documents is None and signature.service != "sts":
            return self._application(environ, start_response)
        wanted = _required(environ, signature)
        for need in wanted:
            said = "Allowed" if documents is None else verdict(documents, need.action, need.resource, need.context)
            if said == "Allowed" and need.action == "sts:AssumeRole" and not _trusted(principal, need.resource):
                said = "ImplicitlyDenied"  # AWS says the same of a role that there is not
            if said != "Allowed":
                return _denied(environ, signature, _message(principal, need, said))(environ, start_response)
            if need.action.startswith("kms:") and not _key_lets(principal, need):
                return _denied(environ, signature, _message(principal, need, KEY_POLICY))(environ, start_response)
        reads = documents is not None and wanted and wanted[0].action in _READS
        if documents is not None and reads and not _may_list(documents, wanted[0].resource):
            return self._without_telling(environ, start_response, signature, _message(principal, wanted[0], UNSAID))
        return self._application(environ, start_response)

    def _without_telling(
        self, environ: dict[str, Any], start_response: StartResponse, signature: Signature, message: str
    ) -> Iterable[bytes]:
        """Read an object for somebody who may not list its bucket, and so is not told that there is none.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: without s3:ListBucket a missing key is
        AccessDenied.
        """
        head: list[Any] = []
        chunks = list(self._application(environ, lambda *arguments: head.append(arguments)))
        if head[-1][0].startswith(str(HTTPStatus.NOT_FOUND.value)):
            return _denied(environ, signature, message)(environ, start_response)
        start_response(*head[-1])
        return chunks


def _required(environ: dict[str, Any], signature: Signature) -> list[Permission]:
    request = buffered(environ)
    if signature.service == "s3":
        request = replace(request, body=b"")  # what a permission for S3 hangs on is not in an object's bytes
    # Whole texts: the payload of a service job, which may be longer than the record keeps, names the role to pass.
    call = read_call(signature.service, request, whole_texts=True)
    if call is None:
        return [Permission(f"{signature.service}:?", "*", {})]
    account = isolation.account_of(signature.access_key)
    return required_permissions(Asked(signature.service, call.action, call.parameters, signature.region, account))


def _policies(principal: str) -> list[dict[str, Any]] | None:
    """Return the policies of a role session; None for a user and for the CDK's roles, which may do everything."""
    if _SESSION not in principal:
        return None
    return policies_of(principal.partition(_SESSION)[2].partition("/")[0], principal.split(":")[4])


def _trusted(principal: str, role_arn: str) -> bool:
    """Whether a role lets somebody become it; a session counts as its role (aws:PrincipalArn in the IAM User Guide)."""
    return lets(trust_of(role_arn.rpartition("/")[2], role_arn.split(":")[4]), "sts:AssumeRole", _role_of(principal))


def _role_of(principal: str) -> str:
    if _SESSION not in principal:
        return principal
    return f"arn:aws:iam::{principal.split(':')[4]}:role/{principal.partition(_SESSION)[2].partition('/')[0]}"


def _key_lets(principal: str, need: Permission) -> bool:
    """Return True if the key's own policy agrees: without it no identity-based policy counts
    (https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-overview.html)."""
    return key_policy_lets(need.resource, need.action, _role_of(principal), need.context)


def _may_list(documents: list[dict[str, Any]], object_arn: str) -> bool:
    return verdict(documents, "s3:ListBucket", object_arn.partition("/")[0], {}) == "Allowed"


def _message(principal: str, need: Permission, said: str) -> str:
    because = _BECAUSE[said].format(action=need.action)
    return f"User: {principal} is not authorized to perform: {need.action} on resource: {need.resource} {because}"


def _denied(environ: dict[str, Any], signature: Signature, message: str) -> Response:
    """AWS, "Common errors": AccessDeniedException, HTTP 400 or, in REST, 403; S3 calls it AccessDenied."""
    code = "AccessDenied" if signature.service in ("s3", "sts", "sns") else "AccessDeniedException"
    status = HTTPStatus.BAD_REQUEST if environ.get("HTTP_X_AMZ_TARGET") else HTTPStatus.FORBIDDEN
    return refusal(environ, status, code, message, signature.service)
