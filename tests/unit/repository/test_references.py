"""References: dotted names in backticks, paths of modules, and attributes that tests replace, exist.

A dotted name begins with a package (`traingrid.names.is_hidden`), a class of the same package (`Storage.sizes`), or a
module that the file imports or whose constant it names (`names.is_hidden`, `retry.SLICE_SECONDS`). Any other, such as
`spec.hostname`, may be a field, a column or a name of a library, and is not checked.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = (
    *("batch_job", "bench", "conformance", "docs_site", "examples", "lambda", "localcloud", "stacks", "tests"),
    *("traingrid", "training_container", "verification"),
)
NAME = re.compile(r"(?<!`)`(?!env\.)([A-Za-z_]\w*(?:\.\w+)+)(?<!\.jsonl)(?:\(\))?`(?!`)")
"""A dotted name in backticks; `env.NAME` is a column of a manifest."""
PATH = re.compile(rf"(?<![\w/.-])((?:{'|'.join(PACKAGES)})/[\w/.-]+\.py)\b")


@cache
def sources() -> dict[Path, str]:
    """Return the text of every module."""
    paths = [ROOT / "app.py", *(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))]
    return {path: path.read_text() for path in paths if "node_modules" not in path.parts}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(sources()[path])


def prose(path: Path) -> str:
    """Return the docstrings and comments of a module."""
    strings = [node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)]
    texts = [node.value for node in strings if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join([*texts, *re.findall(r"#.*", sources()[path])])


def defined(scope: ast.AST) -> Iterator[str]:
    """Yield the names that a module or class defines, assigns or imports."""
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]


@cache
def classes(name: str, package: str) -> list[ast.ClassDef]:
    """Return the classes of a package with a name."""
    paths = [path for path, text in sources().items() if f"class {name}" in text and (ROOT / package) in path.parents]
    nodes = [node for path in paths for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    return [node for node in nodes if node.name == name]


def has_member(definition: ast.ClassDef, member: str, package: str) -> bool:
    """Return True if a class has a member, or may inherit it from a class of a library."""
    if member in defined(definition):
        return True
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in definition.bases} - {"Protocol"}
    inherited = [classes(base, package) for base in bases]
    return any(not nodes or any(has_member(node, member, package) for node in nodes) for nodes in inherited)


def modules(name: str) -> list[Path]:
    return [path for path in sources() if name == (path.parent.name if path.stem == "__init__" else path.stem)]


def is_in_package(parts: list[str]) -> bool:
    """Return True if the name of a module, or of something in it, exists."""
    for length in range(len(parts), 0, -1):
        folder, names = ROOT.joinpath(*parts[:length]), parts[length:]
        path = folder.with_suffix(".py") if folder.with_suffix(".py").is_file() else folder / "__init__.py"
        if path in sources() or (folder.is_dir() and not names):
            nodes = classes(names[0], parts[0]) if len(names) > 1 else []
            members = all(has_member(node, names[1], parts[0]) for node in nodes)
            return not names or (names[0] in defined(tree(path)) and members)
    return False


def exists(reference: str, path: Path) -> bool:
    """Return True if a dotted name in a module exists, or is not one that this file checks."""
    first, name = reference.split(".")[:2]
    package = path.relative_to(ROOT).parts[0]
    if first in PACKAGES:
        return is_in_package(reference.split("."))
    if definitions := classes(first, package):
        return any(has_member(definition, name, package) for definition in definitions)
    is_imported = re.search(rf"^\s*from [\w.]+ import .*\b{first}\b", sources()[path], re.MULTILINE)
    if name.isupper() or (is_imported and modules(first)):
        return any(name in defined(tree(module)) for module in modules(first))
    return True


def replaced(path: Path) -> Iterator[str]:
    """Yield the dotted names that a test replaces by `monkeypatch.setattr`, if it imports them from a package."""
    statements = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom)]
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}" for node in statements for alias in node.names
    }
    for call in ast.walk(tree(path)):
        match call:
            case ast.Call(ast.Attribute(attr="setattr"), [ast.Constant(str(dotted)), *_]):
                yield dotted
            case ast.Call(ast.Attribute(attr="setattr"), [ast.Name(name), ast.Constant(str(attribute)), *_]):
                yield f"{imported.get(name, '')}.{attribute}"


def test_what_tests_replace_exists() -> None:
    """Tests that need a browser or a container would otherwise be the first to notice a rename."""
    names = [(path, name) for path in sources() if ROOT / "tests" in path.parents for name in replaced(path)]
    own = [(path, name) for path, name in names if name.partition(".")[0] in PACKAGES]
    assert len(own) > 100
    stale = [f"{path.relative_to(ROOT)}: {name}" for path, name in own if not is_in_package(name.split("."))]
    assert not stale


def test_dotted_names_in_backticks_exist() -> None:
    references = [(path, name) for path, text in sources().items() for name in NAME.findall(text)]
    assert len(references) > 100
    stale = [f"{path.relative_to(ROOT)}: {name}" for path, name in references if not exists(name, path)]
    assert not stale


def test_modules_named_in_prose_exist() -> None:
    """Decision records and the changelog describe the code of their time."""
    pages = {page: page.read_text() for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}
    stale = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in {**sources(), **pages}.items()
        for name in set(PATH.findall(text))
        if not (ROOT / name).is_file() and path.name != "CHANGELOG.md"
        if path in pages or name in prose(path)
    ]
    assert not stale
