"""Elements: HTML and SVG whose texts and attributes are escaped."""

from html import escape
from typing import NewType, TypeAlias

from traingrid.text import printable

Markup = NewType("Markup", str)
"""HTML or SVG. A type checker accepts a plain text only where it is escaped."""
Child: TypeAlias = "Markup | Text | None"
_EMPTY = frozenset({"meta", "br", "line", "circle", "path", "rect", "col"})
"""Elements without content."""


class Text(str):
    """A text of a user, a training or AWS, which is escaped."""

    __slots__ = ()


def text(value: object) -> Text:
    """Return a value as a text."""
    return Text(value)


def el(tag: str, *children: Child, **attributes: object) -> Markup:
    """Return an element.

    Control characters become visible escapes, as the commands print them.

    Args:
        children: Its content; None is left out.
        attributes: Its attributes. An underscore becomes a hyphen, `class_` is `class`, and None is left out.
    """
    attribute_text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_visible(str(value)))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{attribute_text}/>")
    return Markup(f"<{tag}{attribute_text}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Return elements and texts one after the other."""
    return Markup("".join(map(_markup, children)))


def _markup(child: Child) -> str:
    return escape(_visible(child)) if isinstance(child, Text) else child or ""


def _visible(value: str) -> str:
    """Return a text whose control characters are visible, except line ends."""
    return "\n".join(map(printable, value.split("\n")))
