"""Base lines: the lines of a specification as a manifest, and the errors of their fields with places in the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traingrid.manifest.json_lines import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traingrid.grid.yaml_document import YamlDocument
    from traingrid.manifest.errors import LineError
    from traingrid.manifest.spec_file import SpecFile


def manifest_of(document: YamlDocument, lines: Sequence[Mapping[str, Any]]) -> bytes:
    """Return base lines as JSON Lines.

    Blank lines give each the line number of its entry in the file, so that errors name the right line.
    """
    content = b""
    for number, line in enumerate(lines):
        blank_lines = max(document.line(("lines", number)) - 1 - content.count(b"\n"), 0)
        _job_count, _, json_line = json_lines([line]).partition("\n")  # the first line is the comment "# jobs: 1"
        content += b"\n" * blank_lines + json_line.encode()
    return content


def lines_of(content: bytes) -> list[dict[str, Any]]:
    """Return the base lines of a manifest that `manifest_of` has made."""
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def problems_of(file: SpecFile[Any], errors: Iterable[LineError], other_key: str = "") -> Iterator[str]:
    """Yield the errors of checked lines as sentences about the specification.

    Args:
        errors: The errors of a manifest that `json_lines` has made from the lines.
        other_key: The key that caused the errors, if it is not that of a line.
    """
    for error in errors:
        is_name = error.field == "field"  # then the value is the name of an unknown field
        field = error.value.strip("'") if is_name else error.field
        key = (other_key,) if other_key else ("lines", error.line - 2, field) if error.line > 1 else ("lines",)
        value = f" {error.value}" if error.value and not is_name else ""
        yield f"{file.place(key)}:{value} {error.reason}. {error.next_step}"
