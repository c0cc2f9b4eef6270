"""Layout: the import direction between folders, and forbidden names of files."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (
    "app.py",
    "stacks",
    "lambda",
    "batch_job",
    "traingrid",
    "localcloud",
    "rehearsal",
    "conformance",
    "training_container",
)
# The packages that each folder must not import, including third-party libraries that are too large for it.
FORBIDDEN = {
    "traingrid": {
        "stacks",
        "localcloud",
        "rehearsal",
        "faults",
        "training_container",
        "batch_job",
        "aws_cdk",
        "tensorflow",
        "moto",
    },
    "lambda": {"stacks", "localcloud", "training_container", "batch_job", "aws_cdk", "tensorflow", "moto", "click"},
    "batch_job": {"stacks", "localcloud", "training_container", "aws_cdk", "tensorflow", "moto", "click"},
    "stacks": {"localcloud", "training_container", "batch_job", "moto"},
    "app.py": {"localcloud", "training_container", "batch_job", "moto"},
    "localcloud": {
        "stacks",
        "training_container",
        "batch_job",
        "rehearsal",
        "faults",
        "conformance",
        "aws_cdk",
        "tensorflow",
    },
    "conformance": {"stacks", "traingrid", "training_container", "batch_job", "rehearsal", "faults", "aws_cdk", "moto"},
    "rehearsal": {"stacks", "training_container", "batch_job", "faults", "aws_cdk", "tensorflow"},
    "training_container": {"stacks", "localcloud", "batch_job", "traingrid", "aws_cdk", "moto"},
}
EXCEPTIONS = {  # the commands that start them
    ("traingrid/cli/local.py", "localcloud"),
    ("traingrid/cli/rehearse.py", "rehearsal"),
}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "constants", "misc"}


def files() -> list[Path]:
    return [
        path for part in PRODUCT for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))
    ]


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("part", PRODUCT)
def test_imports_follow_the_direction_of_folders(part: str) -> None:
    wrong = []
    for path in files():
        relative = path.relative_to(ROOT).as_posix()
        if relative.partition("/")[0] == part:
            wrong += [(relative, name) for name in imported(path) & FORBIDDEN[part]]
    assert set(wrong) <= EXCEPTIONS


def test_no_file_has_a_meaningless_name() -> None:
    assert [path for path in files() if path.stem in NAMES_THAT_SAY_NOTHING] == []


def test_product_code_does_not_mention_localcloud() -> None:
    """Product code has no branches for the local AWS, so no product file mentions it."""
    mentions = [
        path.relative_to(ROOT).as_posix()
        for path in files()
        if path.is_relative_to(ROOT)
        and "localcloud" in path.read_text()
        and not {"localcloud", "rehearsal", "conformance"} & set(path.relative_to(ROOT).parts)
    ]
    allowed = {"traingrid/cli/local.py"}
    assert set(mentions) <= allowed
