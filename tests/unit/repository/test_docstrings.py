"""Docstrings: a parameter is described only if its name and type do not suffice, and each described one exists."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    *("batch_job", "bench", "conformance", "docs_site", "examples", "lambda", "localcloud", "setup", "stacks"),
    *("traingrid", "training_container", "verification"),
)
MAX_SHORT = 205
"""The number of descriptions with three words or fewer, such as a unit or the allowed values; lower it when you remove
one that repeats name and type."""
MAX_UNKNOWN = 0
"""The number of described parameters that do not exist; lower it when you correct one."""
_ENTRY = re.compile(r"\n {4}(\S[^\n]*?): ([^\n]*(?:\n {8}[^\n]*)*)")
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def entries(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield name and description of each parameter and attribute."""
    for section in re.findall(r"^(?:Args|Attributes):((?:\n {4}.*)+)", docstring, re.MULTILINE):
        yield from _ENTRY.findall(section)


@cache
def described() -> list[tuple[str, Documented, str, str]]:
    """Return the path, the class or function, the name and the description of each entry."""
    paths = [ROOT / "app.py", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]
    sources = {path: path.read_text() for path in paths if "node_modules" not in path.parts}
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node, name, text)
        for path, source in sources.items()
        if "Args:" in source or "Attributes:" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, Documented)
        for name, text in entries(ast.get_docstring(node) or "")
    ]


def names(node: Documented) -> set[str]:
    """Return the parameters of a function; of a class, also its attributes and those of its methods."""
    nodes = list(ast.walk(node if isinstance(node, ast.ClassDef) else node.args))
    stored = [part for part in nodes if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store)]
    attributes = {part.id if isinstance(part, ast.Name) else part.attr for part in stored}
    methods = {part.name for part in nodes if isinstance(part, ast.FunctionDef)}
    return attributes | methods | {part.arg for part in nodes if isinstance(part, ast.arg)}


def test_a_description_adds_to_name_and_type() -> None:
    short = [f"{place} {name}: {text}" for place, _, name, text in described() if len(text.split()) <= 3]
    assert len(short) <= MAX_SHORT, "\n".join(short)


def test_a_described_parameter_exists() -> None:
    unknown = [f"{place} {name}" for place, node, name, _ in described() if name.lstrip("*") not in names(node)]
    assert len(unknown) <= MAX_UNKNOWN, "\n".join(unknown)
