"""Prefixes: finds the submission that a user means by the first characters of its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.errors import UsageError
from traingrid.ledger.errors import UnknownSubmissionError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_IDS = 5


def matching_id(prefix: str, ids: Iterable[str]) -> str:
    """Return the only id that begins with the given characters.

    Args:
        prefix: The first characters of an id.
        ids: The ids of all submissions.

    Raises:
        UsageError: No submission has such an id, or several have one.
    """
    matches = [submission for submission in ids if submission.startswith(prefix)]
    if not matches:
        raise UnknownSubmissionError(prefix)
    if len(matches) > 1:
        more = ", …" if len(matches) > _SHOWN_IDS else ""
        text = f"{len(matches)} submissions start with {prefix}: {', '.join(matches[:_SHOWN_IDS])}{more}."
        raise UsageError(text, "Give more characters of the id.")
    return matches[0]
