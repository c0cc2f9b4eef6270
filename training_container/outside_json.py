"""Outside JSON: reads JSON text of SageMaker, users and other programs, and raises ValueError for all that is none.

Python's json module raises RecursionError for nested text, which no caller expects. traingrid/strict_json.py is the
reader of the other packages, which this image does not have.
"""

import json
from typing import Any

MAX_LEVELS = 100
"""The maximum number of nested objects and lists, with which recursive functions work at any depth of the stack."""


def loads(text: str | bytes) -> Any:
    """Return a JSON value with at most `MAX_LEVELS` levels.

    Raises:
        ValueError: It is not JSON in UTF-8, has more levels, or a number with more digits than Python reads.
    """
    text = text if isinstance(text, str) else text.decode()
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_NESTED) from None
    if text.count("[") + text.count("{") > MAX_LEVELS and _exceeds_levels(value):
        raise ValueError(_NESTED)
    return value


_NESTED = f"it has more than {MAX_LEVELS} levels"


def _exceeds_levels(value: Any) -> bool:
    entries = [value]
    for _ in range(MAX_LEVELS):
        containers = [entry for entry in entries if isinstance(entry, dict | list)]
        entries = []
        for container in containers:
            entries += container.values() if isinstance(container, dict) else container
    return any(isinstance(entry, dict | list) for entry in entries)
