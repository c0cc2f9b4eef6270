"""The audit: what must hold of a grid whatever was killed, lost, repeated or delayed. A pure function of the world.

| | must hold |
|---|---|
| I1 | nothing is lost: every line of an accepted manifest has ended, or something living still answers for it |
| I2 | nothing is duplicated: one array per submission, one training job per attempt, attempts one after the other |
| I3 | nothing is orphaned: every running training job is the current one of a living line |
| I4 | the ledger says what SageMaker says |
| I5 | what was cancelled ends, and nothing new is started of it |
| I7 | every training job is where, and as whom, its line says; what was not accepted has started nothing |
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from traingrid import audit_calls, audit_ledger, audit_training_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.violation import Kind, Violation
    from traingrid.world import World

_NAMED = 5
_CHECKS = (
    audit_ledger.lost_submissions,
    audit_ledger.lost_lines,
    audit_ledger.changed_ends,
    audit_ledger.untrue_ends,
    audit_training_jobs.duplicate_training_jobs,
    audit_training_jobs.orphans,
    audit_training_jobs.uncancelled,
    audit_training_jobs.misplaced,
    audit_calls.duplicate_arrays,
    audit_calls.duplicate_calls,
    audit_calls.unclaimed_calls,
)


def audit(world: World) -> list[Violation]:
    """Return everything that is wrong with a grid; nothing where all is accounted for.

    Args:
        world: The grid as it was read (`traingrid.world_reading`).
    """
    return list(chain.from_iterable(check(world) for check in _CHECKS))


def notes(world: World) -> list[str]:
    """Return what a person should know of a grid though it is not wrong, as sentences."""
    deleted = audit_ledger.deleted_since(world)
    if not deleted:
        return []
    more = ", ..." * (len(deleted) > _NAMED)
    what = "training jobs of lines that have ended are not in SageMaker any more"
    return [f"{len(deleted)} {what}: {', '.join(deleted[:_NAMED])}{more}"]


def counts(violations: Sequence[Violation]) -> dict[Kind, int]:
    """Return how many violations there are of each kind."""
    found = Counter(violation.kind for violation in violations)
    kinds: tuple[Kind, ...] = ("duplicate", "orphan", "lost", "other")
    return {kind: found[kind] for kind in kinds}
