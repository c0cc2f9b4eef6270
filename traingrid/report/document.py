"""Document: the HTML file of a report. It has no scripts, and a browser loads nothing for it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from base64 import b64encode
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from traingrid.errors import UsageError
from traingrid.report.content import read_content
from traingrid.report.elements import Markup, el, joined, text
from traingrid.report.outcome import failures_section, regions_section, tiles
from traingrid.report.reproduce import reproduce_section
from traingrid.report.rounds import rounds_section
from traingrid.report.runs import curves_section, other_runs_section, runs_section
from traingrid.report.tables import counted_rest
from traingrid.text import counted

if TYPE_CHECKING:
    from traingrid.api.control_plane import ControlPlane
    from traingrid.report.content import Content
    from traingrid.report.subject import Subject

_GENERATOR = '<meta name="generator" content="traingrid report'
_FIRST_CHARACTERS = 2000
_MAX_DAMAGED_PARTS = 5


def write_report(plane: ControlPlane, subject: Subject, file: Path) -> None:
    """Write a report. An earlier report is replaced, and no other file is.

    Args:
        file: The path of the HTML file.

    Raises:
        UsageError: A submission or the folder does not exist, or the file is not a report.
    """
    _check(file)
    content = document(read_content(plane, subject))
    # A reader never sees a part of the file, and an error keeps the earlier one.
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _check(file: Path) -> None:
    if not file.parent.is_dir():
        raise UsageError(f"The folder {file.parent} does not exist.", "Create it, or choose another file.")
    if not file.exists():
        return
    if not file.is_file():
        raise UsageError(f"{file} is not a file.", "Choose another file.")
    with file.open(encoding="utf-8", errors="replace") as earlier:
        if _GENERATOR not in earlier.read(_FIRST_CHARACTERS):
            raise UsageError(
                f"{file} exists, and is not a report of traingrid.", "Nothing was changed. Choose another file."
            )


def document(content: Content) -> str:
    """Return the HTML of a report."""
    style = files("traingrid.report").joinpath("report.css").read_text()
    title = _title(content)
    head_element = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_policy(style)),
        el("meta", name="generator", content=f"traingrid report {content.version}"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", text(title)),
        el("style", Markup(style)),
    )
    body = el("body", _header(content, title), _main(content), _footer(content))
    return f"<!doctype html>\n{el('html', head_element, body, lang='en')}\n"


def _title(content: Content) -> str:
    if series := content.subject.series:
        return f"{series.kind} {series.name}"
    (submission_item,) = content.heads
    return f"{submission_item.manifest.rpartition('/')[2]}: submission {submission_item.submission}"


def _policy(style: str) -> str:
    """Return a policy that allows this style, and nothing else (https://www.w3.org/TR/CSP3/)."""
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _header(content: Content, title: str) -> Markup:
    facts = [
        f"grid {content.grid}",
        counted(sum(submission_item.jobs for submission_item in content.heads), "job"),
        f"submitted {_form(min(item.submitted_at or item.claimed_at for item in content.heads))}",
        f"read {_time(content)}",
    ]
    snapshot = None
    if content.open_jobs:
        open_jobs = f"{content.open_jobs:,} of {counted(len(content.runs), 'job')} had not ended at {_time(content)}"
        snapshot = el("p", text(f"This is a snapshot: {open_jobs}."), class_="notice")
    return el(
        "header",
        el("h1", text(title)),
        el("p", text(" · ".join(facts)), class_="quiet"),
        snapshot,
        *(el("p", text(part.sentence), class_="notice") for part in content.damaged[:_MAX_DAMAGED_PARTS]),
        counted_rest(min(len(content.damaged), _MAX_DAMAGED_PARTS), len(content.damaged), "parts that cannot be read"),
        tiles(content),
    )


def _main(content: Content) -> Markup:
    sections = (
        *(rounds_section, runs_section, curves_section, failures_section, regions_section),
        *(reproduce_section, other_runs_section),
    )
    return el("main", joined(*(section(content) for section in sections)))


def _footer(content: Content) -> Markup:
    source = f"Written by traingrid {content.version} from the ledger and the metric history, at {_time(content)}."
    return el("footer", el("p", text(f"{source} It contains no scripts, and loads nothing.")))


def _time(content: Content) -> str:
    return f"{content.at:%Y-%m-%d %H:%M:%S} UTC"


def _form(timestamp: str) -> str:
    """Return a timestamp of the ledger in the form of the other times."""
    return timestamp.replace("T", " ").replace("Z", " UTC")
