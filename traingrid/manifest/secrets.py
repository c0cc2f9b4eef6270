"""Secrets: recognises credentials by the names and forms of values, and in the files of a source folder.

Any principal that may call DescribeTrainingJob can read a line's values, and any that may read the data bucket its
source. Commands use the plugins of detect-secrets (docs/decisions/hostile-input.md). The functions in AWS and the
orchestrator's image do not have it: they know the forms of `secret_forms` only.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from traingrid.manifest.secret_forms import PASSWORD_IN_URL, has_token, is_name_of_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIN_LENGTH = 16
"""No detector finds a secret in a shorter text."""
# These compare the entropy of words, or their surroundings in a program, or find every address or upper-case word.
_UNUSED = frozenset(
    {
        *("Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector"),
        *("IPPublicDetector", "ArtifactoryDetector", "BasicAuthDetector"),
    }
)


def is_secret(name: str, value: str) -> bool:
    """Return True if a value of a manifest looks like a secret, by its name or its form."""
    if is_name_of_secret(name, value):
        return True
    return len(value) >= _MIN_LENGTH and bool(PASSWORD_IN_URL.search(value) or secret_in([value]))


def secret_in(lines: Iterable[str], *, quickly: bool = False) -> tuple[int, str] | None:
    """Return the number and the kind of the first secret in a text, or None.

    Args:
        lines: The lines of the text. Numbers begin with 1.
        quickly: True to search for the forms of `secret_forms` only, which is twenty times faster.
    """
    detectors = () if quickly else _detectors()
    for number, line in enumerate(lines, start=1):
        if len(line) < _MIN_LENGTH:
            continue
        if has_token(line):
            return number, "a key or token"
        for detector in detectors:
            if any(detector.analyze_string(line)):
                return number, str(detector.secret_type)
    return None


@cache
def _detectors() -> tuple[Any, ...]:
    """Return the detectors that look for the forms of keys and tokens; none where detect-secrets is not installed."""
    try:
        from detect_secrets.core.plugins.util import (  # noqa: PLC0415  # its import takes a tenth of a second
            get_mapping_from_secret_type_to_class,
        )
    except ModuleNotFoundError:
        return ()
    classes = get_mapping_from_secret_type_to_class().values()
    return tuple(detector() for detector in classes if detector.__name__ not in _UNUSED)
