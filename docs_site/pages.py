"""Pages of the documentation site: an MkDocs hook that gives the site the layout of the repository.

MkDocs knows only the files of docs/. This hook adds the pages of the root folder, and a page for each source file or
folder that a page links to. The links in the Markdown remain valid on GitHub.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DIAGRAMS = ROOT / "docs_site/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"
_LOG = logging.getLogger("mkdocs.hooks.pages")
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
_FENCE = re.compile(r"(^(?:```.*?^```$| {4}[^\n]*$))", re.MULTILINE | re.DOTALL)
_LIST = re.compile(r"^([^\s|#>-].*\n)(?=(?:-|1\.) )", re.MULTILINE)
_ITEM = re.compile(r"^\d+\. .*\n(?:(?: {3}.*)?\n|\d+\. .*\n)+", re.MULTILINE)
_INFO = re.compile(r"^(```\w+) .*$", re.MULTILINE)
_LEFT = re.compile(r"<p>(?:(?!</p>).)*?((?:```|\n- |\n1\. )[^\n]*)", re.DOTALL)
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", "Dockerfile": "dockerfile"}


def on_files(files: Files, *, config: "MkDocsConfig") -> Files:
    """Return the site's files, each at its path in the repository.

    Args:
        files: The files of docs/, and those of the theme.

    Returns:
        The files, including those of the root folder and the linked sources.
    """
    pages = {path.relative_to(ROOT).as_posix(): path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))}
    found = [File.generated(config, name, abs_src_path=str(path)) for name, path in pages.items()]
    found.append(File.generated(config, DIAGRAMS.name, abs_src_path=str(DIAGRAMS)))
    targets = {target for name in pages for target in _targets(name)} - set(pages)
    pictures = {target for target in targets if target.endswith((".png", ".svg"))}
    found += [File.generated(config, name, abs_src_path=str(ROOT / name)) for name in sorted(pictures)]
    for target in sorted(targets - pictures):
        content = _listing(ROOT / target) if (ROOT / target).is_dir() else _source(ROOT / target)
        found.append(File.generated(config, _page(target), content=content, inclusion=InclusionLevel.NOT_IN_NAV))
    return Files([*(file for file in files if not file.is_documentation_page()), *found])


def on_page_markdown(markdown: str, *, page: "Page", files: Files, **_: object) -> str:
    """Return a page as Python-Markdown needs it: with links to pages of sources, and lists in its form.

    GitHub, as CommonMark, also begins a list right after a paragraph, needs three spaces in a numbered list instead of
    four, and ignores words after the language of a code block.

    Returns:
        The text. Links to files that do not exist are unchanged, and MkDocs reports them.
    """
    folder = Path(page.file.src_uri).parent

    def shown(match: re.Match[str]) -> str:
        link = match.group()
        target = normpath(folder / link)
        return link if target in files.src_uris or not (ROOT / target).exists() else _page(link.rstrip("/"))

    markdown = _INFO.sub(r"\1", _ITEM.sub(lambda item: item.group().replace("\n   ", "\n    "), markdown))
    return _outside_code(lambda text: _LIST.sub(r"\1\n", _LINK.sub(shown, text)), markdown)


def on_page_content(html: str, *, page: "Page", **_: object) -> str:
    """Return a page's HTML without the backslashes that GitHub requires before bars in a table's code.

    A list or a code block that is still part of a paragraph is a warning, which ends a strict build.
    """
    if left := _LEFT.search(html):
        _LOG.warning("Doc file '%s' has Markdown that is not rendered: %s", page.file.src_uri, left.group(1))
    return _CELL.sub(lambda cell: cell.group().replace("\\|", "|"), html)


def _outside_code(change: Callable[[str], str], markdown: str) -> str:
    """Apply a change to the text between code blocks."""
    parts = _FENCE.split(markdown)
    return "".join(change(part) if number % 2 == 0 else part for number, part in enumerate(parts))


def _targets(name: str) -> set[str]:
    """Return the paths, relative to the root, of the existing files and folders that a page links to."""
    text = _FENCE.sub("", (ROOT / name).read_text())
    targets = {normpath(Path(name).parent / link) for link in _LINK.findall(text)}
    return {target for target in targets if (ROOT / target).exists()}


def _page(target: str) -> str:
    return f"{target}.md"


def _source(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix or path.name, "text")
    return f"# {path.relative_to(ROOT)}\n\n``````{language}\n{path.read_text()}\n``````\n"


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "__")))
    return f"# {folder.relative_to(ROOT)}\n\n" + "".join(f"- {name}\n" for name in names)
