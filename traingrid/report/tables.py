"""Tables: tables of a report with their headings, and the forms of their cells."""

from collections.abc import Sequence
from typing import NamedTuple

from traingrid.report.elements import Child, Markup, el, text


class Heading(NamedTuple):
    """A column of a table.

    Attributes:
        kind: The class of its cells: "number", "name", "value", "why", "state", "place", "region" or empty.
    """

    text: str
    kind: str = ""


Cell = tuple[str, "Child"]
"""An additional class of a cell, which may be empty, and its content."""


def cell(content: object, kind: str = "") -> Cell:
    """Return a cell with a text."""
    return kind, text(content)


def table(
    label: str, headings: Sequence[Heading], rows: Sequence[Sequence[Cell]], total: Sequence[Cell] = ()
) -> Markup:
    """Return a table that scrolls sideways where it is too wide.

    Args:
        label: Its name for a screen reader.
        headings: Its columns. The cells of the column "name", otherwise of the first one, are the headings of the rows.
        total: The cells of the last row; none for a table without one.
    """
    heads = (el("th", text(heading.text), scope="col", class_=heading.kind or None) for heading in headings)
    element = el(
        "table",
        el("thead", el("tr", *heads)),
        el("tbody", *(_row(headings, row) for row in rows)),
        el("tfoot", _row(headings, total)) if total else None,
    )
    return el("div", element, class_="card scroll", role="region", aria_label=label, tabindex="0")


def _row(headings: Sequence[Heading], cells: Sequence[Cell]) -> Markup:
    def made(number: int, heading: Heading, kind: str, content: Child) -> Markup:
        kinds = f"{heading.kind} {kind}".strip() or None
        return el("th", content, scope="row", class_=kinds) if number == header else el("td", content, class_=kinds)

    header = next((number for number, heading in enumerate(headings) if heading.kind == "name"), 0)
    filled = zip(headings, cells, strict=True)
    return el("tr", *(made(number, heading, *cell) for number, (heading, cell) in enumerate(filled)))


def section(title: str, *children: Child) -> Markup:
    """Return a section with a heading."""
    return el("section", el("h2", text(title)), *children)


def counted_rest(rows: int, total: int, noun: str) -> Markup | None:
    """Return the sentence that a list is not complete; None if it is."""
    if rows >= total:
        return None
    return el("p", text(f"The first {rows:,} of {total:,} {noun}."), class_="quiet small")
