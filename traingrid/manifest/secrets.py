"""Secrets: recognises credentials by the names and forms of values, and in the files of a source folder.

Any principal that may call DescribeTrainingJob can read a line's values, and any that may read the data bucket its
source. Commands use the plugins of detect-secrets (docs/decisions/hostile-input.md). The functions in AWS and the
orchestrator's image do not have it: they know the forms in `_VALUE` only.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = re.compile(
    r"(.*[_.\-])?(password|passwd|pwd|secret|(api|access|secret|private|account|auth|client|service)[_-]?key"
    r"|(api|access|auth|bearer|refresh|session|hf|hub|hugging_?face(_hub)?|github|gitlab|slack|wandb)[_-]?token"
    r"|github[_-]?pat|slack[_-]?webhook([_-]?url)?|openai[_-]?key)",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"\b(AKIA|ASIA)[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{22}"
    r"|\bhf_[A-Za-z0-9]{30}|\bsk-[A-Za-z0-9_-]{20}|\bxox[abeoprs]-[A-Za-z0-9-]{10}|\bhooks\.slack\.com/services/T"
    r"|\bglpat-[A-Za-z0-9_-]{20}|\bnpm_[A-Za-z0-9]{36}"
)
_PASSWORD_IN_URL = re.compile(r"://[^\s:/?#@]*:[^\s:/?#@]+@")
_SHORTEST = 16
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
    if _NAME.fullmatch(name):
        return True
    return len(value) >= _SHORTEST and bool(_PASSWORD_IN_URL.search(value) or secret_in([value]))


def secret_in(lines: Iterable[str]) -> tuple[int, str] | None:
    """Return the number and the kind of the first secret in a text, or None.

    Args:
        lines: The lines of the text. Numbers begin with 1.
    """
    for number, line in enumerate(lines, start=1):
        if len(line) < _SHORTEST:
            continue
        if _VALUE.search(line):
            return number, "a key or token"
        for detector in _detectors():
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
