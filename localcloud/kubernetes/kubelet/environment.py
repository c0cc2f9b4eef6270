"""Environment: the variables of a container.

Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/ and
https://kubernetes.io/docs/concepts/workloads/pods/downward-api/.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.kubelet.volumes import field
from localcloud.kubernetes.quantities import amount
from localcloud.kubernetes.resources import CONFIG_MAP, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.store import Object

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.][A-Za-z0-9_.-]*)\)")


class ConfigError(Exception):
    """A variable's source does not exist."""


def variables(client: Client, pod: Object, container: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a container's specification.

    Raises:
        ConfigError: A variable's source does not exist.
    """
    values: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for resource, part in ((CONFIG_MAP, "configMapRef"), (SECRET, "secretRef")):
            if reference := source.get(part):
                prefix = source.get("prefix") or ""
                data = _data(client, pod, resource, reference)
                values |= {f"{prefix}{name}": value for name, value in data.items()}
    for variable in container.get("env") or []:
        if (source := variable.get("valueFrom")) is not None:
            for value in _names_of_source(client, pod, container, source):
                values[variable["name"]] = value
        else:
            values[variable["name"]] = expanded(variable.get("value") or "", values)
    return values


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its references $(NAME) to known variables replaced; $$ is a dollar sign."""
    return _REFERENCE.sub(lambda match: "$" if match[0] == "$$" else values.get(match[1], match[0]), text)


def _names_of_source(
    client: Client, pod: Object, container: Mapping[str, Any], source: Mapping[str, Any]
) -> Iterator[str]:
    if reference := source.get("fieldRef"):
        yield field(pod, reference["fieldPath"])
    elif reference := source.get("resourceFieldRef"):
        part, _, name = reference["resource"].partition(".")
        value = ((container.get("resources") or {}).get(part) or {}).get(name, "0")
        yield str(-int(-amount(value) // amount(reference.get("divisor") or "1")))
    for resource, part in ((CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")):
        if reference := source.get(part):
            data = _data(client, pod, resource, reference)
            if reference["key"] in data:
                yield data[reference["key"]]
            elif not reference.get("optional"):
                place = f"{resource.kind} {pod['metadata']['namespace']}/{reference.get('name', '')}"
                message = f"couldn't find key {reference['key']} in {place}"
                raise ConfigError(message)


def _data(client: Client, pod: Object, resource: Any, reference: Mapping[str, Any]) -> dict[str, str]:
    name = reference.get("name", "")
    source = client.find(resource, pod["metadata"]["namespace"], name)
    if source is None:
        if reference.get("optional"):
            return {}
        message = f'{resource.kind.lower()} "{name}" not found'
        raise ConfigError(message)
    data = source.get("data") or {}
    if resource is SECRET:
        return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
    return {key: str(value) for key, value in data.items()}
