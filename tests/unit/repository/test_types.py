"""Types: mypy reads every module of the CDK that the sources import, and no other one."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("app.py", "bench", "conformance", "docs_site", "examples", "localcloud", "stacks", "tests", "verification")


def imported_modules(path: Path) -> set[str]:
    """Return the modules of the CDK that a file imports, by their own names."""
    text = path.read_text()
    nodes = ast.walk(ast.parse(text if "aws_cdk" in text else ""))
    names = {
        f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return {match[1] for name in names if (match := re.match(r"aws_cdk\.(?:interfaces\.)?([a-z]\w*)", name))}


def test_mypy_reads_the_modules_of_the_cdk_that_are_imported() -> None:
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    (followed,) = (entry["module"] for entry in overrides if entry.get("follow_imports") == "normal")
    folders = [ROOT / part for part in PRODUCT]
    paths = [path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*.py"))]
    used = {name for path in paths if "node_modules" not in path.parts for name in imported_modules(path)}
    assert {name.rpartition(".")[2] for name in followed} - {"aws_cdk", "_jsii", "interfaces"} == used
