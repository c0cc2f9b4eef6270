"""JSON merge patch (RFC 7396), the patch type that custom resources support and that the backend uses."""

from __future__ import annotations

from typing import Any


def merged(current: Any, patch: Any) -> Any:
    """Return a value with a patch applied: null removes a member, other objects are merged, the rest replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
