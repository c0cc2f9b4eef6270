"""Writing into the ledger what a service says of a training job, from wherever it was seen.

Events repeat, come late and in any order; nothing here believes them. The service is asked, and an end that is recorded
stays. One end is left open: of a failure that traingrid tries again by itself, as long as a child watches the job.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.failures import DELETED, of_end
from traingrid.ownership import tagged_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.backends.base import Backend, Seen
    from traingrid.ledger import Item, Ledger


def record_seen(grid: str, ledger: Ledger, backend: Backend, training_job: str, *, watched: bool = True) -> bool:
    """Ask the service about a training job and record its answer.

    Args:
        grid: The grid's name.
        ledger: Where to record.
        backend: The service, in the training job's Region.
        training_job: The training job's name; one that is not of this grid is left alone.
        watched: Whether the child that says that it watches the job may be believed; False once it is known to be gone.

    Returns:
        Whether anything was recorded: not for a job that has ended in the ledger already, or that it does not know, nor
        for a training job that was not asked for by the child that the ledger says has claimed the name.
    """
    parsed = names.parse_training_job(grid, training_job)
    seen = backend.describe(training_job) if parsed else None
    if parsed is None or seen is None:
        return False
    record = partial(ledger.record_job, parsed.submission, parsed.index, parsed.attempt)
    if _recorded(partial(record, fingerprint=seen.fingerprint), training_job, seen, watched=watched):
        return True
    # It may be another training job than the ledger's, or the ledger's in the service's own words.
    tagged = tagged_fingerprint(backend.tags(seen), grid, parsed)
    if tagged in ("", seen.fingerprint):
        return False
    return _recorded(partial(record, fingerprint=tagged), training_job, seen, watched=watched)


def deleted(training_job: str) -> Item:
    """Return the facts of a job whose training job was there, and is not known any more."""
    reason = f"SageMaker does not know the training job {training_job} any more."
    return {"state": "Failed", "phase": "", "failure": DELETED.name, "reason": reason}


def _recorded(record: Callable[..., bool], training_job: str, seen: Seen, *, watched: bool) -> bool:
    # The name too: the child may have died between creating the training job and recording that.
    facts, failure = {**seen.facts(), "training_job": training_job}, of_end(seen)
    if failure is None:
        return record(facts)
    facts |= {"failure": failure.name}
    if not (failure.retried and watched):
        return record(facts)
    if record(facts, unless_watched=True):
        return True
    # Whether this is the end, or another attempt follows, is for the child to decide; `failure` makes it look.
    return record({name: value for name, value in facts.items() if name != "state"})
