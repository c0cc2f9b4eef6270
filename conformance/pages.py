"""List of the web pages that claims cite, with the phrase that was found in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.claim import Claim


def text(claims: Sequence[Claim]) -> str:
    """Return each page with the claims that cite it, their phrases, and a list of the pages without a phrase."""
    cited = [(source, claim.name) for claim in claims for source in claim.sources if source.text.startswith("https://")]
    lines = []
    for url in sorted({source.text for source, _ in cited}):
        lines.append(url)
        lines += [f"    {name}: {_found(source.phrase)}" for source, name in cited if source.text == url]
    missing = [f"    {source.text} ({name})" for source, name in cited if not source.phrase]
    return "\n".join([*lines, "", f"Pages without a phrase, {len(missing)} of {len(cited)}:", *missing])


def _found(phrase: str) -> str:
    return f"read: “{phrase}”" if phrase else "not read, or the page does not state the claim"
