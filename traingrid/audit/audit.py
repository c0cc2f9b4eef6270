"""Audit: checks a grid's invariants, which hold after any process or message was killed, lost, repeated or delayed.

The audit is a pure function of a snapshot of the grid (`World`).

| | invariant |
|---|---|
| I1 | nothing is lost: every line of an accepted manifest has ended, or a running process is responsible for it |
| I2 | nothing is duplicated: one array per submission, one training job per attempt, attempts one after the other |
| I3 | nothing is orphaned: every running training job is the current training job of a line that has not ended |
| I4 | the ledger matches SageMaker |
| I5 | cancelled jobs end, and no new training job is created for them |
| I7 | every training job has the Region and role of its line; no training job exists for a rejected manifest |
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from traingrid.audit import calls as audit_calls
from traingrid.audit import ledger as audit_ledger
from traingrid.audit import training_jobs as audit_training_jobs
from traingrid.audit.snapshot import World
from traingrid.audit.violation import Kind, Violation

_NAMED = 5
_CHECKS = (
    audit_ledger.damaged_items,
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
    """Return all violations of a grid's invariants.

    Args:
        world: The snapshot of the grid (`traingrid.audit.read_snapshot` reads it).
    """
    return list(chain.from_iterable(check(world) for check in _CHECKS))


def notes(world: World) -> list[str]:
    """Return sentences about a grid that are not violations but that a person should know."""
    deleted = audit_ledger.deleted_since(world)
    if not deleted:
        return []
    more = ", ..." if len(deleted) > _NAMED else ""
    fact = "training jobs of ended lines no longer exist in SageMaker"
    return [f"{len(deleted)} {fact}: {', '.join(deleted[:_NAMED])}{more}"]


def counts(violations: Sequence[Violation]) -> dict[Kind, int]:
    """Return the number of violations of each kind."""
    counter = Counter(violation.kind for violation in violations)
    kinds: tuple[Kind, ...] = ("duplicate", "orphan", "lost", "other")
    return {kind: counter[kind] for kind in kinds}
