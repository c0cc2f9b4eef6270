"""Behaviours: lists the tests, cases and rows that one commit has and another has not, so that none is lost unnoticed.

    .venv/bin/python -m tests.behaviours BEFORE AFTER

It collects the tests of both commits in temporary worktrees, with this environment and the ignored files of this
checkout. Of the folders that have environments of their own, it reads the functions without their cases. It exits with
status 1 if a test, case or row was removed and not renamed.
"""

import ast
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SIMILAR = 0.75
"""Share of equal code above which a new function is the removed one under another name."""


@dataclass
class Behaviour:
    """A test function.

    Attributes:
        code: Its statements, without its docstring.
        assertions: Number of its assertions and expected exceptions.
        cases: Ids of its cases, and names of its rows.
    """

    code: str = ""
    assertions: int = 0
    cases: set[str] = field(default_factory=set)


Behaviours = dict[str, Behaviour]
"""Behaviours by `file::function`."""


def behaviours_of(commit: str) -> Behaviours:
    """Return the behaviours of a commit."""
    with _worktree(commit) as folder:
        behaviours = {
            f"{path.relative_to(folder)}::{name}": behaviour
            for path in sorted((folder / "tests").rglob("test_*.py"))
            for name, behaviour in _functions(ast.parse(path.read_text()).body)
        }
        for test, case in _collected(folder):
            behaviours[test].cases.add(case)
    return behaviours


@contextmanager
def _worktree(commit: str) -> Iterator[Path]:
    """Yield a folder with the files of a commit, and with links to the ignored files of this checkout."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "worktree"
        _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
        try:
            for ignored in _git("ls-files", "--others", "--ignored", "--exclude-standard", "--directory").splitlines():
                link = folder / ignored.rstrip("/")
                if link.name != "__pycache__" and link.parent.is_dir() and not link.exists():
                    link.symlink_to(ROOT / ignored.rstrip("/"))
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout


def _functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Behaviour]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            yield from _functions(statement.body, f"{prefix}{statement.name}::")
        elif isinstance(statement, ast.FunctionDef) and statement.name.startswith("test_"):
            code = [ast.unparse(each) for each in statement.body if each is not _docstring(statement)]
            yield prefix + statement.name, Behaviour("\n".join(code), _assertions(statement))


def _docstring(function: ast.FunctionDef) -> ast.stmt | None:
    return function.body[0] if ast.get_docstring(function) is not None else None


def _assertions(function: ast.FunctionDef) -> int:
    calls = (ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call))
    expected = sum(name == "pytest.raises" or name.rpartition(".")[2].startswith("assert_") for name in calls)
    return expected + sum(isinstance(node, ast.Assert) for node in ast.walk(function))


def _collected(folder: Path) -> list[tuple[str, str]]:
    """Return the tests that pytest collects in a worktree, each with a case or row, in a process of their own."""
    result = folder / "collected.json"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # -P: the worktree's `tests` must not be mixed with this one.
    command = [sys.executable, "-P", __file__, "--collect", str(result)]
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    if not result.exists():
        sys.exit(f"The tests of {folder} cannot be collected:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return [(test, case) for test, case in json.loads(result.read_text())]


class Collector:
    """A pytest plugin that records each collected item, deselected ones too."""

    def __init__(self) -> None:
        self.items: list[tuple[str, str]] = []

    def pytest_itemcollected(self, item: Any) -> None:
        case = item.callspec.id if hasattr(item, "callspec") else ""
        # pytest escapes ids in the same way, so that a case that becomes a row keeps its name.
        rows = [row.encode("unicode_escape").decode() for row in getattr(item.obj, "row_names", ("",))]
        test = item.nodeid.partition("[")[0]
        self.items += [(test, "-".join(filter(None, (case, row)))) for row in rows]


def _collect(result: Path) -> int:
    sys.path.insert(0, str(Path.cwd()))
    collector = Collector()
    status = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"], plugins=[collector])
    if status == pytest.ExitCode.OK:
        result.write_text(json.dumps(collector.items))
    return int(status)


@dataclass
class Comparison:
    """The differences between two commits."""

    before: Behaviours
    after: Behaviours

    def __post_init__(self) -> None:
        self.removed = sorted(self.before.keys() - self.after.keys())
        self.added = sorted(self.after.keys() - self.before.keys())
        self.renamed: dict[str, str] = {}
        for old in list(self.removed):
            new = max(self.added, key=lambda each: self._similarity(old, each), default="")
            if new and self._similarity(old, new) >= SIMILAR:
                self.renamed[old] = new
                self.removed.remove(old)
                self.added.remove(new)
        kept = self.before.keys() & self.after.keys()
        self.pairs = {**{name: name for name in kept}, **self.renamed}

    def _similarity(self, old: str, new: str) -> float:
        """Return how similar two functions are; functions of the same name in two files have been moved."""
        if old.partition("::")[2] == new.partition("::")[2]:
            return 1.0
        return difflib.SequenceMatcher(None, self.before[old].code, self.after[new].code).ratio()

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield from (f"- {name}" for name in self.removed)
        yield from (f"+ {name}" for name in self.added)
        yield from (f"~ {old} -> {new}" for old, new in sorted(self.renamed.items()))
        for old, new in sorted(self.pairs.items()):
            lost, gained = self.cases(old, new)
            yield from (f"- {old}[{case}]" for case in lost)
            yield from (f"+ {new}[{case}]" for case in gained)
            assertions = self.before[old].assertions, self.after[new].assertions
            if assertions[1] < assertions[0]:
                yield f"? {new}: {assertions[0]} assertions -> {assertions[1]}"
        yield f"{_count(self.before)} -> {_count(self.after)}"

    def cases(self, old: str, new: str) -> tuple[list[str], list[str]]:
        """Return the cases and rows of a function that were removed, and those that were added."""
        before, after = self.before[old].cases, self.after[new].cases
        return sorted(before - after), sorted(after - before)

    def is_loss(self) -> bool:
        """Return True if a function, a case or a row was removed."""
        return bool(self.removed) or any(self.cases(old, new)[0] for old, new in self.pairs.items())


def _count(behaviours: Mapping[str, Behaviour]) -> str:
    cases = sum(max(1, len(behaviour.cases)) for behaviour in behaviours.values())
    return f"{len(behaviours)} functions with {cases} cases and rows"


def main(arguments: list[str]) -> int:
    """Compare two commits."""
    if arguments[:1] == ["--collect"]:
        return _collect(Path(arguments[1]))
    before, after = (behaviours_of(commit) for commit in arguments)
    comparison = Comparison(before, after)
    print(*comparison.lines(), sep="\n")
    return int(comparison.is_loss())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
