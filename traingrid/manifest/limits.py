"""Limits of SageMaker: the lengths, patterns and numbers that its API allows, read from botocore's service model.

botocore checks neither lengths nor patterns before it sends a request. Without this check, SageMaker would reject an
invalid line hours later, when the line's child starts. An update of botocore updates these limits.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from botocore.loaders import Loader

# The greatest value of the model's 32-bit "integer" (https://smithy.io/2.0/spec/simple-types.html#integer).
MAX_INTEGER = 2**31 - 1
# The model's patterns have Java's syntax. These are the classes that Python's re lacks. \w is letters, numbers and the
# underscore, and \p{Z} the separators, in Unicode's categories
# (https://www.unicode.org/reports/tr44/#General_Category_Values).
_JAVA_CLASSES = {
    r"\p{L}": r"\w",
    r"\p{N}": r"\w",
    r"\p{Z}": " \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
    r"\p{Alnum}": "A-Za-z0-9",
}
_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")


@cache
def _shapes() -> dict[str, dict[str, Any]]:
    shapes: dict[str, dict[str, Any]] = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    return shapes


@cache
def most(shape: str) -> int:
    """Return the maximum length, number of entries or value that a shape of the service model allows."""
    return int(_shapes()[shape].get("max", MAX_INTEGER))


@cache
def choices(shape: str) -> tuple[str, ...]:
    """Return the values that a shape of the service model lists."""
    return tuple(_shapes()[shape]["enum"])


class _Limit(NamedTuple):
    least: int
    greatest: int
    pattern: str
    compiled: re.Pattern[str] | None
    one_line: bool


@cache
def _limit(shape: str) -> _Limit:
    """Return the length and the pattern of a shape of the service model."""
    pattern = _shapes()[shape].get("pattern", "")
    translated = pattern
    for java_class, python_class in _JAVA_CLASSES.items():
        translated = translated.replace(java_class, python_class)
    min_length = int(_shapes()[shape].get("min", 0))
    if shape.endswith("Key"):
        min_length = max(min_length, 1)
    is_one_line = pattern in (".*", ".+")  # a dot matches all characters but a line break
    is_any_text = is_one_line or pattern in ("", r"[\S\s]*")
    compiled = None if is_any_text else re.compile(translated)
    return _Limit(min_length, most(shape), pattern, compiled, one_line=is_one_line)


def limit_problem(shape: str, text: str) -> str | None:
    """Return the reason why a text violates a shape's limits, or None if it does not.

    Control characters other than tabs and line ends are always rejected, because any text may reach a terminal.
    """
    limit = _limit(shape)
    if len(text) > limit.greatest:
        return f"must have at most {limit.greatest:,} characters, SageMaker's limit; got {len(text):,}"
    if len(text) < limit.least:
        return "must not be empty"
    if limit.one_line and _LINE_ENDS.search(text):
        return "must be a single line"
    if not text.isprintable() and _CONTROLS.search(text):
        return "must not contain control characters"
    if limit.compiled and not limit.compiled.fullmatch(text):
        return f"must match the pattern {limit.pattern}"
    return None if text.isascii() or _is_unicode(text) else "must not contain half of a surrogate pair"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
