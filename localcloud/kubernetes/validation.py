"""Validation: the checks and changes of the body of a write before the server stores the object.

Built-in kinds are decoded into types, so that a wrong type is a bad request; a custom resource is validated against the
schema of its definition, which reports all violations of the object. Unknown fields are dropped, with a warning or, if
the client asks for `fieldValidation=Strict` as kubectl does, with an error
(https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes import rules, schema, status
from localcloud.kubernetes.defaults import with_defaults_of_kind

if TYPE_CHECKING:
    from localcloud.kubernetes.resources import Resource

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_MAX_NAME = 253
_MAX_LABEL = 63
_GO_TYPES = {"object": "object", "array": "array", "string": "string", "integer": "number", "boolean": "bool"}


def accepted(resource: Resource, body: dict[str, Any], field_validation: str) -> tuple[dict[str, Any], list[str]]:
    """Return the object that the server stores for a body, and its warnings.

    Args:
        field_validation: The request's parameter: Strict, Warn or Ignore.

    Raises:
        ApiError: The body is not accepted.
    """
    unknown = [f'unknown field "{path}"' for path in schema.unknown_fields(body, resource.schema)]
    if unknown and field_validation == "Strict":
        raise status.not_decodable(resource, f"strict decoding error: {', '.join(unknown)}")
    new = schema.without_unknown_fields(body, resource.schema)
    _check_types(resource, new)
    new = with_defaults_of_kind(resource, schema.with_defaults(new, resource.schema))
    causes = dict(_problems(resource, new))
    if causes:
        raise status.invalid(resource, new["metadata"].get("name", ""), causes)
    return new, unknown if field_validation != "Ignore" else []


def _check_types(resource: Resource, body: dict[str, Any]) -> None:
    wrong = list(schema.wrong_types(body, resource.schema))
    if not wrong:
        return
    if resource.is_custom:
        causes = {
            path: f'Invalid value: "{actual}": {path} in body must be of type {required}: "{actual}"'
            for path, required, actual in wrong
        }
        raise status.invalid(resource, body["metadata"].get("name", ""), causes)
    path, required, actual = wrong[0]
    error = f"json: cannot unmarshal {_GO_TYPES.get(actual, actual)} into Go struct field"
    raise status.not_decodable(resource, f"{error} {resource.kind}.{path} of type {required}")


def _problems(resource: Resource, new: dict[str, Any]) -> list[tuple[str, str]]:
    name = str(new["metadata"].get("name", ""))
    problems = []
    if not name:
        problems.append(("metadata.name", "Required value: name or generateName is required"))
    elif len(name) > _MAX_NAME:
        problems.append(("metadata.name", f'Invalid value: "{name}": must be no more than {_MAX_NAME} characters'))
    elif not _SUBDOMAIN.fullmatch(name):
        problems.append(("metadata.name", f'Invalid value: "{name}": {_SUBDOMAIN_RULE}'))
    for key, value in (new["metadata"].get("labels") or {}).items():
        if len(value) > _MAX_LABEL or not _LABEL_VALUE.fullmatch(value):
            rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
            problems.append((f"metadata.labels.{key}", f'Invalid value: "{value}": {rule}'))
    problems += schema.violations(new, resource.schema)
    return problems or list(rules.problems(resource, new))
