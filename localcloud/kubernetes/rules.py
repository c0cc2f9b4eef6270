"""Rules: the checks of the server on the content of pods and jobs, with the errors that clients see.

Sources: pkg/apis/core/validation/validation.go and pkg/apis/batch/validation/validation.go of Kubernetes. Only rules
that a job of this project could violate are here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes import failure_policy_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object

Problem = tuple[str, str]
"""The path of a field, and its problem."""

_MAX_ANNOTATIONS = 256 * 1024
_MAX_LABEL = 63
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_IMMUTABLE_OF_JOBS = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "successPolicy")
_MUTABLE_OF_PODS = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_POD_UPDATE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def problems(resource: Resource, new: Object) -> Iterator[Problem]:
    """Yield the problems of an object whose types are correct."""
    yield from _annotations(new.get("metadata") or {}, "metadata")
    spec = new.get("spec")
    if resource.is_custom or not isinstance(spec, dict):
        return
    if resource.kind == "Pod":
        yield from _pod(spec, "spec")
    elif resource.kind == "Job":
        yield from _job(new, spec)


def problems_of_update(resource: Resource, current: Object, changed: Object) -> Iterator[Problem]:
    """Yield the problems of a change of an object."""
    before, after = current.get("spec"), changed.get("spec")
    if resource.is_custom or not isinstance(before, dict) or not isinstance(after, dict):
        return
    if resource.kind == "Pod" and _fixed_of_pod(before) != _fixed_of_pod(after):
        yield "spec", _POD_UPDATE
    elif resource.kind == "Job":
        yield from _job_update(current, before, after)


def _annotations(metadata: Mapping[str, Any], path: str) -> Iterator[Problem]:
    pairs = (metadata.get("annotations") or {}).items()
    if sum(len(key.encode()) + len(value.encode()) for key, value in pairs) > _MAX_ANNOTATIONS:
        yield f"{path}.annotations", f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes"


def _job(job: Object, spec: dict[str, Any]) -> Iterator[Problem]:
    yield from _numbers_and_choices(spec)
    indexed = spec["completionMode"] == "Indexed"
    completions = spec.get("completions")
    if indexed and completions is None:
        yield "spec.completions", "Required value: when completion mode is Indexed"
    elif indexed and completions:
        name = job["metadata"].get("name", "")
        last_hostname = f"{name}-{completions - 1}"
        if not _is_label(last_hostname):
            reason = f"will not able to create pod with invalid DNS label: {last_hostname}"
            yield "metadata.name", f'Invalid value: "{name}": {reason}'
    if spec.get("successPolicy") and not indexed:
        yield "spec.successPolicy", "Invalid value: requires indexed completion mode"
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    yield from _annotations(template.get("metadata") or {}, "spec.template")
    pod = template.get("spec")
    if not isinstance(pod, dict):
        yield "spec.template.spec.containers", "Required value"
        return
    yield from _choice("spec.template.spec.restartPolicy", pod["restartPolicy"], ("OnFailure", "Never"))
    if spec.get("podFailurePolicy") is not None:
        yield from failure_policy_rules.problems(spec)
    yield from _pod(pod, "spec.template.spec")


def _numbers_and_choices(spec: dict[str, Any]) -> Iterator[Problem]:
    for name in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        value = spec.get(name)
        if isinstance(value, int) and value < 0:
            yield f"spec.{name}", f"Invalid value: {value}: must be greater than or equal to 0"
    choices = {"completionMode": ("Indexed", "NonIndexed"), "podReplacementPolicy": ("Failed", "TerminatingOrFailed")}
    for name, choices_of_field in choices.items():
        yield from _choice(f"spec.{name}", spec[name], choices_of_field)


def _choice(path: str, value: object, choices: tuple[str, ...]) -> Iterator[Problem]:
    if value not in choices:
        valid_values = ", ".join(f'"{choice}"' for choice in choices)
        yield path, f'Unsupported value: "{value}": supported values: {valid_values}'


def _job_update(current: Object, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Problem]:
    for name in _IMMUTABLE_OF_JOBS:
        if before.get(name) != after.get(name):
            yield f"spec.{name}", _immutable(after.get(name))
    elastic = after.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    if before.get("completions") != after.get("completions") and not elastic:
        yield "spec.completions", _immutable(after.get("completions"))
    old, new = before.get("template") or {}, after.get("template") or {}
    if before.get("suspend") and not (current.get("status") or {}).get("startTime"):
        # Kueue changes these fields of a job that has not started (KEP-2926).
        old, new = _without_scheduling(old), _without_scheduling(new)
    if old != new:
        yield "spec.template", _immutable(after.get("template"))


def _without_scheduling(template: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
    for name in ("nodeSelector", "affinity", "tolerations", "schedulingGates"):
        spec.pop(name, None)
    return {"metadata": metadata, "spec": spec}


def _immutable(value: object) -> str:
    return f"Invalid value: {json.dumps(value)}: field is immutable"


def _fixed_of_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod that an update must not change."""
    fixed = {name: value for name, value in spec.items() if name not in _MUTABLE_OF_PODS}
    for name in ("initContainers", "containers"):
        fixed[name] = [{**container, "image": "", "imagePullPolicy": ""} for container in fixed.get(name) or []]
    return fixed


def _pod(spec: dict[str, Any], path: str) -> Iterator[Problem]:
    for name in ("hostname", "subdomain"):
        if (value := spec.get(name)) and not _is_label(value):
            yield f"{path}.{name}", f'Invalid value: "{value}": {_label_problem(value)}'
    seconds = spec.get("activeDeadlineSeconds")
    if isinstance(seconds, int) and seconds < 1:
        yield f"{path}.activeDeadlineSeconds", f"Invalid value: {seconds}: must be between 1 and 2147483647, inclusive"
    yield from _choice(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
    volumes = set()
    for index, volume in enumerate(spec.get("volumes") or []):
        if volume["name"] in volumes:
            yield f"{path}.volumes[{index}].name", f'Duplicate value: "{volume["name"]}"'
        volumes.add(volume["name"])
    yield from _pod_containers(spec, path, volumes)


def _pod_containers(spec: dict[str, Any], path: str, volumes: set[str]) -> Iterator[Problem]:
    if not spec.get("containers"):
        yield f"{path}.containers", "Required value"
    names = set[str]()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or []):
            field = f"{path}.{group}[{index}]"
            if container.get("name") in names:
                yield f"{field}.name", f'Duplicate value: "{container["name"]}"'
            names.add(container.get("name", ""))
            yield from _container(container, field, volumes, init=group == "initContainers")


def _container(container: dict[str, Any], path: str, volumes: set[str], *, init: bool) -> Iterator[Problem]:
    name = container.get("name") or ""
    if not _is_label(name):
        yield f"{path}.name", f'Invalid value: "{name}": {_label_problem(name)}' if name else "Required value"
    if not container.get("image"):
        yield f"{path}.image", "Required value"
    if container.get("restartPolicy") not in ((None, "Always") if init else (None,)):
        value = container["restartPolicy"]
        rule = f'Unsupported value: "{value}": supported values: "Always"' if init else "Forbidden: may not be set"
        yield f"{path}.restartPolicy", rule
    yield from _mounts(container, path, volumes)
    yield from _resources(container.get("resources") or {}, path)


def _mounts(container: dict[str, Any], path: str, volumes: set[str]) -> Iterator[Problem]:
    places = set()
    for index, mount in enumerate(container.get("volumeMounts") or []):
        field = f"{path}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            yield f"{field}.name", f'Not found: "{mount.get("name", "")}"'
        if mount.get("mountPath") in places:
            yield f"{field}.mountPath", f'Invalid value: "{mount["mountPath"]}": must be unique'
        places.add(mount.get("mountPath"))


def _resources(resources: dict[str, Any], path: str) -> Iterator[Problem]:
    for resource, limit in (resources.get("limits") or {}).items():
        request = (resources.get("requests") or {}).get(resource, limit)
        if "/" in resource and request != limit:
            rule = f"must be equal to {resource} limit of {limit}"
            yield f"{path}.resources.requests", f'Invalid value: "{request}": {rule}'
    for resource in resources.get("requests") or {}:
        if "/" in resource and resource not in (resources.get("limits") or {}):
            yield f"{path}.resources.limits", "Required value: Limit must be set for non overcommitable resources"


def _is_label(text: str) -> bool:
    return len(text) <= _MAX_LABEL and bool(_LABEL.fullmatch(text))


def _label_problem(text: str) -> str:
    return f"must be no more than {_MAX_LABEL} characters" if len(text) > _MAX_LABEL else _LABEL_RULE
