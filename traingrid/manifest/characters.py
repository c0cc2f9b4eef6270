"""Characters: finds those that make a text differ from its appearance."""

from __future__ import annotations

import re
import unicodedata

# Letters, a mark and a pattern without a glyph, which Unicode does not list with the format characters
# (https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt, Default_Ignorable_Code_Point).
_FILLERS = "\u034f\u115f\u1160\u2800\u3164\uffa0"
_HIDDEN = ("Cf", "Zl", "Zp")
"""Unicode's format characters, and separators of lines and paragraphs."""
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"), "-")
_QUOTES = "\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b\u2039\u203a\uff07"
QUOTE_STEP = 'Replace the quotes by ", or remove them.'
"""The next step for a typographic quote around a value."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def character_name(character: str) -> str:
    """Return a character's code point and its name in Unicode, such as U+200B ZERO WIDTH SPACE."""
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def invisible(text: str) -> str:
    """Return the name of a text's first character that cannot be seen; empty if it has none."""
    if text.isascii():
        return ""
    hidden = (sign for sign in text if unicodedata.category(sign) in _HIDDEN or sign in _FILLERS)
    return next(map(character_name, hidden), "")


def invisible_in_name(name: str) -> str:
    """Return the name of a column's first character that is invisible or looks like a blank; empty if it has none."""
    if name.isascii() and name.isprintable():
        return ""
    return next((character_name(sign) for sign in name if not sign.isprintable() or sign in _FILLERS), "")


def visible(name: str) -> str:
    """Return a name without the characters that `invisible_in_name` returns."""
    return "".join(sign for sign in name if sign.isprintable() and sign not in _FILLERS)


def typographic_quote(text: str) -> str:
    """Return the name of the typographic quote that begins or ends a text; empty if none does.

    Only the characters " and ' quote a value. An apostrophe may end a word.
    """
    if text.isascii():
        return ""
    if text[0] in _QUOTES or text[0] in _SINGLE_QUOTES:
        return character_name(text[0])
    return character_name(text[-1]) if text[-1] in _QUOTES else ""


def not_of_number(text: str) -> str:
    """Return the name of the character for which a text that shows a number is none; empty for all other texts."""
    if text.isascii():
        if text.endswith(";") and _NUMBER.fullmatch(text.rstrip("; ")):
            return character_name(";")
        return character_name("'") if text.startswith("'") and _NUMBER.fullmatch(text[1:]) else ""
    ascii_form = "".join(unicodedata.normalize("NFKC", text[:100]).translate(_DASHES).split())
    if not _NUMBER.fullmatch(ascii_form):
        return ""
    return next(character_name(sign) for sign in text if not sign.isascii())
