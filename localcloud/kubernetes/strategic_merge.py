"""Strategic merge patch: the patch type of built-in kinds, which `kubectl patch`, `cordon` and `drain` use by default.

Source: https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md.
Lists with a merge key are merged by item; finalizers are merged as a set; other lists are replaced.
"""

from __future__ import annotations

from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "hostAliases": "ip",
    "ports": "containerPort",
    "taints": "key",
    "conditions": "type",
    "ownerReferences": "uid",
}
_SETS = ("finalizers",)
_DIRECTIVE = "$patch"
_DELETE_FROM = "$deleteFromPrimitiveList/"


def strategically_merged(current: Any, patch: Any) -> Any:
    """Return a value with a patch applied."""
    if not isinstance(patch, dict):
        return patch
    if patch.get(_DIRECTIVE) == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            result[field] = [element for element in result.get(field) or [] if element not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, list):
            result[name] = _list(name, result.get(name) or [], value)
        else:
            result[name] = strategically_merged(result.get(name), value)
    return result


def _list(name: str, current: list[Any], patch: list[Any]) -> list[Any]:
    if name in _SETS:
        return list(dict.fromkeys([*current, *patch]))
    key = _KEYS.get(name)
    if key is None or not all(isinstance(element, dict) for element in (*current, *patch)):
        return patch
    if any(element == {_DIRECTIVE: "replace"} for element in patch):
        return [element for element in patch if _DIRECTIVE not in element]
    items = {element.get(key): element for element in current}
    for element in patch:
        if element.get(_DIRECTIVE) == "delete":
            items.pop(element.get(key), None)
        else:
            items[element.get(key)] = strategically_merged(items.get(element.get(key)), element)
    return list(items.values())
