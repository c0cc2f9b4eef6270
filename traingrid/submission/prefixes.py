"""Prefixes: finds the submission that a user means by the first characters of its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.errors import UsageError
from traingrid.ledger.errors import UnknownSubmissionError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_IDS = 5


def matching_id(given: str, known: Iterable[str]) -> str:
    """Return the only id that begins with the given characters.

    Args:
        given: The first characters of an id.
        known: The ids of all submissions.

    Raises:
        UsageError: No submission has such an id, or several have one.
    """
    found = [one for one in known if one.startswith(given)]
    if not found:
        raise UnknownSubmissionError(given)
    if len(found) > 1:
        more = ", …" if len(found) > _SHOWN_IDS else ""
        text = f"{len(found)} submissions start with {given}: {', '.join(found[:_SHOWN_IDS])}{more}."
        raise UsageError(text, "Give more characters of the id.")
    return found[0]
