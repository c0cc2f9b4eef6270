"""Writing into the ledger what a service says of a training job, from wherever it was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid import names

if TYPE_CHECKING:
    from traingrid.backends.base import Backend
    from traingrid.ledger import Ledger


def record_seen(grid: str, ledger: Ledger, backend: Backend, training_job: str) -> bool:
    """Ask the service about a training job and record its answer.

    Args:
        grid: The grid's name.
        ledger: Where to record.
        backend: The service, in the training job's Region.
        training_job: The training job's name; one that is not of this grid is left alone.

    Returns:
        Whether anything was recorded: not for a job that has ended in the ledger already, or that it does not know.
    """
    parsed = names.parse_training_job(grid, training_job)
    seen = backend.describe(training_job) if parsed else None
    if parsed is None or seen is None:
        return False
    # The name too: the child may have died between creating the training job and recording that.
    facts = {**seen.facts(), "training_job": training_job}
    return ledger.record_job(parsed.submission, parsed.index, parsed.attempt, facts)
