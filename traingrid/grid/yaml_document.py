"""YAML documents: reads a YAML file with the line of every key, for error messages. Needs PyYAML: not for Lambda."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class YamlDocument:
    """The content of a YAML file.

    `data` is the content as `yaml.safe_load` returns it, `lines` the line (from 1) of every key and list entry, and
    `duplicates` the path and line of every repeated key of a mapping. YAML forbids repeated keys
    (https://yaml.org/spec/1.2.2/#3213-node-comparison), but PyYAML silently keeps the last one.
    """

    data: object
    lines: dict[KeyPath, int]
    duplicates: tuple[tuple[KeyPath, int], ...]

    def line(self, path: KeyPath) -> int:
        """Return the line of `path`, or of its nearest enclosing key if `path` is not in the file."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)


class YamlSyntaxError(ValueError):
    """The text is not YAML; gives the line (from 1) and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def read_yaml(path: Path) -> YamlDocument:
    """Read a YAML file of plain values.

    Raises YamlSyntaxError for text that is not YAML or not UTF-8, and OSError for a file that cannot be read.
    """
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8-sig"))
        node = loader.get_single_node()
        if node is None:
            return YamlDocument(data=None, lines={}, duplicates=())
        entries = list(_entries(node, ()))
        data: Any = loader.construct_document(node)
    except UnicodeDecodeError as error:
        raise YamlSyntaxError(1, f"byte {error.start} is not UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlSyntaxError(mark.line + 1 if mark else 1, error.problem or "not YAML") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # PyYAML does not convert every error to YAMLError: 2026-02-30, which looks like a date, raises ValueError.
        raise YamlSyntaxError(1, str(error).splitlines()[0]) from error
    lines: dict[KeyPath, int] = {}
    duplicates = []
    for key_path, line in entries:
        if key_path in lines:
            duplicates.append((key_path, line))
        lines.setdefault(key_path, line)
    return YamlDocument(data=data, lines=lines, duplicates=tuple(duplicates))


def _entries(node: yaml.Node, path: KeyPath, visited: set[int] | None = None) -> Iterator[tuple[KeyPath, int]]:
    """Yield path and line of every entry below `node`, including duplicates, but not the entries of aliases."""
    visited = set() if visited is None else visited
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            yield (*path, name), key.start_mark.line + 1
            yield from _entries(value, (*path, name), visited)
    elif isinstance(node, yaml.SequenceNode):
        for position, entry in enumerate(node.value):
            yield (*path, position), entry.start_mark.line + 1
            yield from _entries(entry, (*path, position), visited)
