"""Pod security: refuses pods that violate the Pod Security Standard of their namespace.

Sources: https://kubernetes.io/docs/concepts/security/pod-security-standards/,
https://kubernetes.io/docs/concepts/security/pod-security-admission/, and for the texts k8s.io/pod-security-admission
(policy/check_*.go). Only the mode `enforce`, and no checks of SELinux, AppArmor, sysctls, /proc mounts, probes and
Windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.resources import POD
from localcloud.kubernetes.status import forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localcloud.kubernetes.store import Object

_LABEL = "pod-security.kubernetes.io/enforce"
_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_ALLOWED_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""The capabilities that `baseline` lets containers add."""
_ALLOWED_VOLUME_TYPES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"),
        "secret",
    }
)
"""The types of volumes that `restricted` allows."""


def check(namespace: Object, pod: Object) -> None:
    """Refuse a pod that its namespace does not admit.

    Raises:
        ApiError: The pod violates the standard.
    """
    labels = namespace["metadata"].get("labels") or {}
    level = labels.get(_LABEL, "privileged")
    violations: list[str] = []
    if level in ("baseline", "restricted"):
        violations += _baseline_problems(pod["spec"])
    if level == "restricted":
        violations += _restricted_problems(pod["spec"])
    if violations:
        policy = f"{level}:{labels.get(f'{_LABEL}-version', 'latest')}"
        raise forbidden(POD, pod["metadata"]["name"], f'violates PodSecurity "{policy}": {", ".join(violations)}')


def _baseline_problems(spec: dict[str, Any]) -> Iterator[str]:
    """Yield the violations of the level `baseline`, in the words of Kubernetes."""
    shared = [f"{name}=true" for name in _HOST_NAMESPACES if spec.get(name)]
    if shared:
        yield f"host namespaces ({', '.join(shared)})"
    if containers := _violators(spec, lambda container: bool(_context(container).get("privileged"))):
        yield f"privileged ({containers} must not set securityContext.privileged=true)"
    if containers := _violators(spec, lambda container: bool(_forbidden_capabilities(container))):
        capabilities = {name for container in _containers(spec) for name in _forbidden_capabilities(container)}
        capability_list = ", ".join(f'"{name}"' for name in sorted(capabilities))
        field = "securityContext.capabilities.add"
        yield f"non-default capabilities ({containers} must not include {capability_list} in {field})"
    if hosts := [volume["name"] for volume in spec.get("volumes") or [] if "hostPath" in volume]:
        yield f"hostPath volumes ({_quoted('volume', hosts)})"


def _restricted_problems(spec: dict[str, Any]) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    if volumes := [volume["name"] for volume in spec.get("volumes") or [] if _ALLOWED_VOLUME_TYPES.isdisjoint(volume)]:
        yield f"restricted volume types ({_quoted('volume', volumes)} uses a restricted volume type)"
    if containers := _violators(
        spec, lambda container: _context(container).get("allowPrivilegeEscalation") is not False
    ):
        yield (
            f"allowPrivilegeEscalation != false ({containers} must set securityContext.allowPrivilegeEscalation=false)"
        )
    if containers := _violators(
        spec, lambda container: "ALL" not in ((_context(container).get("capabilities") or {}).get("drop") or [])
    ):
        yield f'unrestricted capabilities ({containers} must set securityContext.capabilities.drop=["ALL"])'
    if containers := _violators(
        spec, lambda container: _context(container).get("runAsNonRoot", pod.get("runAsNonRoot")) is not True
    ):
        yield f"runAsNonRoot != true (pod or {containers} must set securityContext.runAsNonRoot=true)"
    if pod.get("runAsUser") == 0:
        yield "runAsUser=0 (pod must not set runAsUser=0)"
    elif containers := _violators(spec, lambda container: _context(container).get("runAsUser") == 0):
        yield f"runAsUser=0 ({containers} must not set runAsUser=0)"
    profile = pod.get("seccompProfile")
    if containers := _violators(
        spec, lambda container: not _is_confined(_context(container).get("seccompProfile") or profile)
    ):
        valid_types = '"RuntimeDefault" or "Localhost"'
        yield f"seccompProfile (pod or {containers} must set securityContext.seccompProfile.type to {valid_types})"


def _is_confined(profile: dict[str, Any] | None) -> bool:
    return (profile or {}).get("type") in ("RuntimeDefault", "Localhost")


def _forbidden_capabilities(container: dict[str, Any]) -> set[str]:
    return set((_context(container).get("capabilities") or {}).get("add") or []) - _ALLOWED_CAPABILITIES


def _violators(spec: dict[str, Any], violates: Callable[[dict[str, Any]], bool]) -> str:
    """Return the containers that violate a rule, as a part of a sentence; empty if there is none."""
    names = [container["name"] for container in _containers(spec) if violates(container)]
    return _quoted("container", names) if names else ""


def _quoted(noun: str, names: list[str]) -> str:
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}"


def _context(container: dict[str, Any]) -> dict[str, Any]:
    return container.get("securityContext") or {}


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or []), *spec["containers"]]
