"""Invalid manifests: files that tools, typing mistakes or attackers produce, each with the expected error.

`bytes_cases`, `csv_cases`, `json_cases` and `value_cases` list them; `test_corpus.py` runs them all.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_JOBS = 500
"""The limit of the grid, a hundredth of the default, so that a file with too many lines is read in milliseconds."""


@dataclass(frozen=True)
class Case:
    """A manifest that must be rejected.

    Attributes:
        name: The defect.
        content: The file.
        field: The field that the first error must name.
        reason: A part of this error's reason.
    """

    name: str
    content: bytes
    field: str
    reason: str
