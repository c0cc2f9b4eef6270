"""Names: local names are nouns of the domain, and a class name has one meaning in a distribution."""

import ast
import builtins
import keyword
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
VAGUE = {
    *("found", "made", "one", "each", "what", "wanted", "seen", "known", "head", "kept", "asked", "taken", "given"),
    *("others", "other", "ones", "thing", "things", "it", "here", "there", "told", "said", "held", "gone", "begun"),
    *("present", "named", "shown", "written", "sent", "got", "had", "whole", "rest"),
}
"""Pronouns and participles, which do not name the content of a variable."""
MAX_VAGUE = {"traingrid": 24, "localcloud": 17, "verification": 15, "training_container": 8}
"""The number of bound names that may be vague; lower it when you rename one."""
MAX_TWICE = {"traingrid": 0, "localcloud": 0, "verification": 0, "training_container": 0}
"""The number of class names that a folder may define more than once; lower it when you rename one."""


@cache
def trees(folder: str) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted((ROOT / folder).rglob("*.py"))}


def bound(tree: ast.Module) -> list[str]:
    """Return the targets of assignments, loops and comprehensions, and the parameters."""
    nodes = list(ast.walk(tree))
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return names + [node.arg for node in nodes if isinstance(node, ast.arg)]


@pytest.mark.parametrize("folder", MAX_VAGUE)
def test_names_are_nouns_of_the_domain(folder: str) -> None:
    vague = Counter(
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees(folder).items()
        for name in bound(tree)
        if name.strip("_") in VAGUE
    )
    assert vague.total() <= MAX_VAGUE[folder], "\n".join(vague)


@pytest.mark.parametrize("folder", MAX_VAGUE)
def test_an_underscore_at_the_end_only_avoids_a_name_of_python(folder: str) -> None:
    reserved = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins)}
    others = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees(folder).items()
        for name in bound(tree)
        if name.strip("_") and name.endswith("_") and not name.endswith("__") and name[:-1] not in reserved
    ]
    assert not others


@pytest.mark.parametrize("folder", MAX_TWICE)
def test_a_class_name_has_one_meaning(folder: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees(folder).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert len(twice) <= MAX_TWICE[folder], twice
