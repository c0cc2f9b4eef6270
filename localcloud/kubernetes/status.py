"""Status: the errors of a Kubernetes API server, with the reasons and messages that clients compare.

Sources: https://kubernetes.io/docs/reference/using-api/api-concepts/, and for the texts a recorded conversation with
kube-apiserver 1.36.2 (tests/integration/localcloud/kubernetes/answers.txt).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localcloud.kubernetes.resources import Resource


@dataclass(frozen=True, kw_only=True)
class ApiError(Exception):
    """An error reply.

    Attributes:
        code: The HTTP status.
        reason: The machine-readable reason, for example "AlreadyExists".
        details: The object that the error concerns, and causes.
    """

    code: int
    reason: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the Status object."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        details = {"details": dict(self.details)} if self.details else {}
        return status | {"reason": self.reason} | details | {"code": self.code}


def not_found(resource: Resource, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    message = f'{resource.full_name} "{name}" not found'
    return ApiError(code=404, reason="NotFound", message=message, details=_details(resource, name))


def no_such_path() -> ApiError:
    """Return the error for a path that the server does not serve, for example of a CRD that is not installed."""
    return ApiError(code=404, reason="NotFound", message="the server could not find the requested resource")


def already_exists(resource: Resource, name: str, *, deleting: bool = False) -> ApiError:
    """Return the error for a name that is taken, also by an object that is being deleted."""
    message = f'{"object is being deleted: " if deleting else ""}{resource.full_name} "{name}" already exists'
    return ApiError(code=409, reason="AlreadyExists", message=message, details=_details(resource, name))


def outdated(resource: Resource, name: str) -> ApiError:
    """Return the error for an update of another resourceVersion than the present one."""
    reason = "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource.full_name} "{name}": {reason}'
    return ApiError(code=409, reason="Conflict", message=message, details=_details(resource, name))


def precondition_failed(resource: Resource, name: str, field: str, required: str, actual: str) -> ApiError:
    """Return the error for a precondition that does not hold."""
    reason = f"Precondition failed: {field} in precondition: {required}, {field} in object meta: {actual}"
    message = f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": {reason}'
    return ApiError(code=409, reason="Conflict", message=message, details=_details(resource, name))


def invalid(resource: Resource, name: str, causes: Mapping[str, str]) -> ApiError:
    """Return the error for an object that violates its schema.

    Args:
        causes: The problems by the path of the field.
    """
    problems = [f"{path}: {problem}" for path, problem in causes.items()]
    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    details = {"name": name, "group": resource.group, "kind": resource.kind} | {
        "causes": [{"message": problem, "field": path} for path, problem in causes.items()]
    }
    message = f'{resource.qualified_kind} "{name}" is invalid: {text}'
    return ApiError(code=422, reason="Invalid", message=message, details=details)


def invalid_option(name: str, problem: str) -> ApiError:
    """Return the error for a parameter of a list or a watch that contradicts another one."""
    causes = [{"message": problem, "field": name}]
    message = f'ListOptions.meta.k8s.io "" is invalid: {name}: {problem}'
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}
    return ApiError(code=422, reason="Invalid", message=message, details=details)


def bad_request(message: str) -> ApiError:
    """Return the error for a body or parameter that cannot be read."""
    return ApiError(code=400, reason="BadRequest", message=message)


def not_decodable(resource: Resource, problems: str) -> ApiError:
    """Return the error for a body that does not have the form of its kind."""
    start = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    return bad_request(f"{start}: {problems}")


def expired(version: int, oldest: int) -> ApiError:
    """Return the error for a resourceVersion of which the server has no history any more."""
    message = f"too old resource version: {version} ({oldest})"
    return ApiError(code=410, reason="Expired", message=message)


def not_allowed(method: str) -> ApiError:
    """Return the error for a method that a path does not support."""
    message = f"the server does not allow this method on the requested resource: {method}"
    return ApiError(code=405, reason="MethodNotAllowed", message=message)


def forbidden(resource: Resource, name: str, reason: str) -> ApiError:
    """Return the error for a request that its user may not make."""
    subject = f'{resource.full_name} "{name}"' if name else resource.full_name
    message = f"{subject} is forbidden: {reason}"
    return ApiError(code=403, reason="Forbidden", message=message, details=_details(resource, name))


def denied(resource: Resource, name: str, policy: str, reason: str) -> ApiError:
    """Return the error for an object that a ValidatingAdmissionPolicy denies, whose reason is Invalid by default.

    Source: Validation.reason in
    https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/validating-admission-policy-v1/.
    """
    binding = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}-binding' denied request: {reason}"
    message = f'{resource.full_name} "{name}" is forbidden: {binding}'
    return ApiError(code=422, reason="Invalid", message=message, details=_details(resource, name))


def unauthorized() -> ApiError:
    """Return the error for a request without valid credentials."""
    return ApiError(code=401, reason="Unauthorized", message="Unauthorized")


def success(resource: Resource, name: str, uid: str) -> dict[str, Any]:
    """Return the reply to the deletion of an object that is gone."""
    details = {**_details(resource, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(resource: Resource, name: str) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    details = {**group, "kind": resource.plural}
    return {"name": name, **details} if name else details
