"""Limits of IAM and STS that moto 5.2.5 lacks: names of roles, sizes of policies, and the duration of sessions.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html states the sizes, without white space. The
sentences are AWS's: https://github.com/serverless/serverless/issues/7643 (policies) and
https://github.com/mmmorris1975/aws-runas/issues/11 (sessions).
"""

from typing import TYPE_CHECKING, Any

from moto.iam.exceptions import LimitExceededException, NotFoundException, ValidationError
from moto.iam.models import IAMBackend, Role, iam_backends
from moto.sts.exceptions import STSValidationError
from moto.sts.responses import TokenResponse

from localcloud.credentials.access_keys import principal_of
from localcloud.credentials.arn import account_of_arn, name_of_arn

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

MAX_ROLE_NAME = 64
MAX_INLINE, MAX_TRUST = 10_240, 2_048
"""Characters of all inline policies of a role together, and of its trust policy."""
CHAINED_SECONDS = 3600
"""The longest session of a role that another role's session assumes."""

_create_role, _put_role_policy, _assume_role = (
    IAMBackend.create_role,
    IAMBackend.put_role_policy,
    TokenResponse.assume_role,
)


def install(cloud: "LocalCloud") -> None:
    """Replace moto's methods."""
    cloud.replace(IAMBackend, create_role=_checked_role, put_role_policy=_checked_policy)
    cloud.replace(TokenResponse, assume_role=_checked_session)


def _checked_role(
    backend: IAMBackend, role_name: str, assume_role_policy_document: str, *arguments: Any, **options: Any
) -> Role:
    if len(role_name) > MAX_ROLE_NAME:
        rule = f"Member must have length less than or equal to {MAX_ROLE_NAME}"
        message = f"1 validation error detected: Value '{role_name}' at 'roleName' failed to satisfy constraint: {rule}"
        raise ValidationError(message)
    if _characters(assume_role_policy_document) > MAX_TRUST:
        raise LimitExceededException(f"Cannot exceed quota for ACLSizePerRole: {MAX_TRUST}")
    return _create_role(backend, role_name, assume_role_policy_document, *arguments, **options)


def _checked_policy(backend: IAMBackend, role_name: str, policy_name: str, policy: str) -> None:
    role = backend.get_role(role_name)
    policies = {**role.policies, policy_name: policy}
    if sum(map(_characters, policies.values())) > MAX_INLINE:
        raise LimitExceededException(f"Maximum policy size of {MAX_INLINE} bytes exceeded for role {role_name}")
    _put_role_policy(backend, role_name, policy_name, policy)


def _checked_session(response: Any) -> Any:
    """Assume a role, and refuse a session that is longer than AWS allows."""
    seconds = response._get_int_param("DurationSeconds", CHAINED_SECONDS)
    refusal = "The requested DurationSeconds exceeds the"
    if seconds > CHAINED_SECONDS and ":assumed-role/" in (principal_of(response.get_access_key()) or ""):
        raise STSValidationError(f"{refusal} 1 hour session limit for roles assumed by role chaining.")
    if seconds > _max_session_seconds(str(response._get_param("RoleArn"))):
        raise STSValidationError(f"{refusal} MaxSessionDuration set for this role.")
    return _assume_role(response)


def _max_session_seconds(arn: str) -> int:
    """Return the seconds that a session of a role may last; 1 hour unless the role sets it."""
    try:
        role = iam_backends[account_of_arn(arn)]["aws"].get_role(name_of_arn(arn))
    except NotFoundException:
        return CHAINED_SECONDS
    return int(role.max_session_duration or CHAINED_SECONDS)


def _characters(document: str) -> int:
    return len("".join(document.split()))
