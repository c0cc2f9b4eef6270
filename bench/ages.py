"""`python -m bench.ages`: prints how many commits of its code each result of bench/results/ is old.

A result is old if more than 200 commits have changed the code that it measures (`bench.measured_code`). Without the
history of that time, as in a shallow clone, the number is unknown.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import CHECKOUT
from bench.measured_code import CODE
from bench.results_file import SUMMARIES, git

OLD = 200
DIRTY = "-dirty"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A result, or a part of one that was measured separately.

    Attributes:
        result: The name of its file without suffix.
        part: The part; empty for the whole result.
        at: The time of the measurement in UTC.
        commit: The commit that was measured; with the suffix -dirty if its code had other changes.
        machine: Cores, processor, and the GPU if one was measured.
    """

    result: str
    part: str
    at: str
    commit: str
    machine: str

    def age(self, checkout: Path = CHECKOUT) -> int | None:
        """Return the number of commits of its code since; None if the history is not known."""
        commit = self.commit.removesuffix(DIRTY)
        count = git(checkout, "rev-list", "--count", f"{commit}..HEAD", "--", *CODE[self.result])
        return int(count) if count else None


def measured(name: str) -> list[Measured]:
    """Return the measurements in a file of bench/results/, which has several if its parts are measured separately."""
    document = json.loads((SUMMARIES / f"{name}.json").read_text())
    if "sabotage" in document:  # of the fault suite
        rows = [*document["rows"], *document["sabotage"]]
        return [_of(name, row["experiment"], {**row, "at": row["ended_at"], **_machine(document)}) for row in rows]
    if "runs" in document:
        return [_of(name, part, run) for part, run in document["runs"].items()]
    return [_of(name, "", document)]


def _machine(document: dict[str, Any]) -> dict[str, Any]:
    return {"machine": document["machine"]}


def _of(name: str, part: str, origin: dict[str, Any]) -> Measured:
    machine = origin["machine"]
    words = ", ".join([f"{machine['cores']} cores", machine["cpu"], *([machine["gpu"]] if "gpu" in machine else [])])
    return Measured(result=name, part=part, at=origin["at"], commit=origin["commit"], machine=words)


def verdict(age: int | None) -> str:
    """Return the words for an age."""
    if age is None:
        return "unknown: the history is not complete"
    return f"old: {age} commits of its code since" if age > OLD else f"{age} commits of its code since"


def lines() -> Iterator[str]:
    """Yield a line for each result, and for the oldest part of one with parts."""
    for name in sorted(path.stem for path in SUMMARIES.glob("*.json")):
        oldest = min(measured(name), key=lambda one: one.at)
        part = f" ({oldest.part})" if oldest.part else ""
        yield f"{name:14} {oldest.at[:10]}  {oldest.commit:18} {verdict(oldest.age())}{part}"


if __name__ == "__main__":
    print("\n".join(lines()))
