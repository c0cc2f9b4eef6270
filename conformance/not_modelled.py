"""List of the behaviours that localcloud does not model, written into docs/localcloud.md from the claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.claim import Claim

PAGE = Path(__file__).resolve().parent.parent / "docs/localcloud.md"
BEGIN = "<!-- not modelled: written by `.venv/bin/python -m conformance --not-modelled` -->"
END = "<!-- end of not modelled -->"


def section(claims: Sequence[Claim]) -> str:
    """Return the list: one line per claim that localcloud does not meet, with the reason."""
    lines = [f"- {claim.not_modelled} (`{claim.name}`)" for claim in claims if claim.not_modelled]
    return "\n".join([BEGIN, *lines, END])


def written(page: str, claims: Sequence[Claim]) -> str:
    """Return a page with its list updated.

    Raises:
        ValueError: The page has no such list.
    """
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        message = f"{PAGE.name} has no line {BEGIN}"
        raise ValueError(message)
    return before + section(claims) + after
