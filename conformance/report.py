"""Reports: the outcome of each claim, without account ids or ids of keys and roles."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from conformance.claim import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from conformance.claim import Claim
    from conformance.runner import Result

_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")
_IDS = re.compile(r"\b(AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b")


def expected(claim: Claim) -> Outcome:
    """Return the expected outcome of a claim in a localcloud, which CI compares with the actual one."""
    if claim.why_documented and not claim.checked_locally:
        return Outcome.DOCUMENTED
    return Outcome.NOT_MODELLED if claim.not_modelled else Outcome.MET


def in_local_cloud(result: Result) -> Outcome:
    """Return a result's outcome in a localcloud; an unmet claim may be known not to be modelled."""
    if result.outcome is Outcome.NOT_MET and result.claim.not_modelled:
        return Outcome.NOT_MODELLED
    return result.outcome


def rows(results: Sequence[Result], *, real: bool) -> list[dict[str, str]]:
    """Return a row for each claim: its sentence, its outcome in a localcloud and in AWS, and whether they agree."""
    table = []
    for result in results:
        claim = result.claim
        local = expected(claim) if real else in_local_cloud(result)
        aws = result.outcome.value if real else "not run"
        is_compared = real and not claim.checked_locally
        agree = {True: "yes" if local.value == aws else "no", False: "-"}[is_compared]
        row = {"claim": claim.name, "area": claim.area, "sentence": claim.sentence, "localcloud": local.value}
        row |= {"aws": aws, "agree": agree}
        reason = claim.why_documented or (claim.not_modelled if local is Outcome.NOT_MODELLED else "")
        row |= {"reason": reason} if reason else {}
        row |= {"detail": redacted(result.detail)} if result.detail and local is not Outcome.NOT_MODELLED else {}
        table.append(row)
    return table


def redacted(text: str) -> str:
    """Return a text in which account ids and the ids of keys and roles are replaced."""
    return _IDS.sub("<id>", _ACCOUNT.sub("<account>", text))


def write(path: Path, table: Sequence[dict[str, str]], **more: Any) -> None:
    """Write a redacted report, which may be committed."""
    document = {**more, "counts": counts(table), "claims": list(table)}
    path.write_text(redacted(json.dumps(document, indent=2, ensure_ascii=False)) + "\n")


def counts(table: Sequence[dict[str, str]]) -> dict[str, dict[str, int]]:
    """Return the number of claims with each outcome, by place."""
    return {
        place: {outcome: number for outcome in Outcome if (number := sum(row[place] == outcome for row in table))}
        for place in ("localcloud", "aws")
    }


def text(table: Sequence[dict[str, str]]) -> str:
    """Return the table for a terminal, with details of the claims that are not met."""
    width = max((len(row["claim"]) for row in table), default=0)
    lines = [f"{'claim':{width}}  {'localcloud':15}  {'AWS':15}  agree"]
    for row in table:
        lines.append(f"{row['claim']:{width}}  {row['localcloud']:15}  {row['aws']:15}  {row['agree']}")
        if detail := row.get("detail"):
            lines.append(f"    {row['sentence']}\n    {detail}")
    return redacted("\n".join(lines))
