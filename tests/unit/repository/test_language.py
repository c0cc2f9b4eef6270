"""Plain language: counts phrases that CONTRIBUTING.md advises against. The counts may only fall."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    *("batch_job", "bench", "conformance", "docs", "docs_site", "examples", "lambda", "localcloud", "stacks"),
    "verification",
    *("tests", "traingrid", "training_container"),
)
DISCOURAGED = {
    "a clause as a noun": (
        r"\b[Ww]hat (?:is|are|was|a|an|the|it|they|nobody|one|has|have|does)\b|\b[Ww]hoever\b|\b[Ww]hatever\b",
        9,
    ),
    "a program that speaks": (r"\b(?:says|said|told)\b", 0),
    "a person without a role": (r"\b(?:[Nn]obody|[Ss]omebody)\b", 3),
    "a quaint word": (r"\b[Mm]end(?:s|ed|ing)?\b|\bthe former\b|\bgoes on\b|\bof (?:its|one's) own\b", 3),
}
"""A pattern, and the number of places that use it; most of these are correct English, or names in code."""

POSSIBLE = re.compile("|".join(pattern.replace(" ", r"\W+[bfr]*\W*") for pattern, _ in DISCOURAGED.values()))
"""Any phrase in the source of a module, whose string may continue on the next line."""


def prose(path: Path) -> str:
    """Return the text of a page, or the strings of more than one word and the comments of a module with a phrase."""
    text = path.read_text()
    if path.suffix != ".py":
        return text
    if not POSSIBLE.search(text):  # parsing takes most of the time
        return ""
    strings = (
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return "\n".join([*(string for string in strings if " " in string), *re.findall(r"#.*", text)])


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The prose of every page and module in the repository, by its path."""
    folders = [ROOT / folder for folder in FOLDERS]
    paths = [*ROOT.glob("*.md"), ROOT / "app.py", *(path for folder in folders for path in folder.rglob("*.*"))]
    chosen = [path for path in paths if path.suffix in {".py", ".md"} and "node_modules" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): prose(path) for path in chosen if path != Path(__file__)}


@pytest.mark.parametrize("name", DISCOURAGED)
def test_the_use_of_a_discouraged_phrase_falls(pages: dict[str, str], name: str) -> None:
    pattern, allowed = DISCOURAGED[name]
    found = [
        f"{path}: …{text[max(0, match.start() - 40) : match.end() + 40]!r}…"
        for path, text in pages.items()
        for match in re.finditer(pattern, text)
    ]
    assert len(found) <= allowed, "rewrite the sentence:\n" + "\n".join(found)
    assert len(found) == allowed, f"lower the count of {name!r} to {len(found)}"
