"""Reaching tests: the test files that may notice a change of a module, nearest first."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_UNIT_FOLDERS = {"lambda": "handlers"}
_NEAR, _FIRST, _UNIT_FILES, _INTEGRATION_FILES = 3, 4, 12, 5
"""The largest number of imports between a module and a test of another package, and the largest numbers of files."""
GROUPS = 3
"""The number of groups of test files."""


class ReachingTests:
    """The tests of a tree."""

    def __init__(self, root: Path) -> None:
        folders = ("traingrid", "lambda", "batch_job", "tests/unit", "tests/integration", "tests/support")
        paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
        self._files = {path.relative_to(root).as_posix(): path for path in paths}
        self._importers: dict[str, set[str]] = defaultdict(set)
        for file, path in self._files.items():
            for other in {*self._imported(path), *self._fixtures(file)} - {file}:
                self._importers[other].add(file)

    def of(self, file: str) -> list[list[str]]:
        """Return groups of test files for a file of the product, fastest first.

        The nearest unit tests of its package, its other unit tests and near ones of other packages, integration tests.
        """
        distances, parts, module = self._distances(file), Path(file).parts, Path(file).stem
        package = parts[1] if len(parts) > 2 else _UNIT_FOLDERS.get(parts[0], parts[0])
        tests = {name: path.read_text() for name, path in self._files.items() if path.name.startswith("test_")}
        mentions = {name for name, text in tests.items() if re.search(rf"\b{module}\b", text)}
        folder = "[./]".join(parts[:-1]) if len(parts) > 3 else f"{package}[./]{module}"
        names = {name for name, text in tests.items() if re.search(rf"{folder}\b", text)}
        names |= {name for name in tests if Path(name).name in (f"test_{package}.py", f"test_{module}.py")}
        nearest = sorted(tests, key=lambda name: (name not in names, name not in mentions, distances.get(name, 99)))
        own = [name for name in nearest if name.startswith(f"tests/unit/{package}/")]
        near = [name for name in nearest if name in names or distances.get(name, 99) <= _NEAR + (name in mentions)]
        unit = [name for name in near if name.startswith("tests/unit/") and name not in own]
        integration = [name for name in near if name.startswith("tests/integration/")]
        return [own[:_FIRST], [*own[_FIRST:], *unit[:_UNIT_FILES]], integration[:_INTEGRATION_FILES]]

    def _distances(self, file: str) -> dict[str, int]:
        """Return the number of imports between a file and each file that loads it."""
        distances, last = {file: 0}, [file]
        while last:
            last = [name for loaded in last for name in sorted(self._importers[loaded]) if name not in distances]
            distances |= {name: max(distances.values()) + 1 for name in last}
        return distances

    def _imported(self, path: Path) -> Iterator[str]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
                yield from (file for module in modules if (file := self._file(module)))
            elif isinstance(node, ast.Import):
                yield from (file for alias in node.names if (file := self._file(alias.name)))

    def _file(self, module: str) -> str | None:
        path = module.replace(".", "/")
        return next((file for file in (f"{path}.py", f"{path}/__init__.py") if file in self._files), None)

    def _fixtures(self, file: str) -> Iterator[str]:
        """Yield the conftest.py of a test's folder; those above it load most of the product for every test."""
        conftest = (Path(file).parent / "conftest.py").as_posix()
        if Path(file).parts[0] == "tests" and conftest in self._files and conftest != "tests/unit/conftest.py":
            yield conftest
