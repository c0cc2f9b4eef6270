"""Recording: writes the state of a training job, as the service describes it, to the ledger.

Events may be repeated, late or out of order. So this module does not use their content, but asks the service. A final
state in the ledger does not change. If traingrid retries a failure automatically and a child watches the job, the
module records the failure but not a final state.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.job.failures import DELETED, of_end
from traingrid.job.ownership import tagged_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.backends.base import Backend, Seen
    from traingrid.ledger.ledger import Item, Ledger


def record_seen(grid: str, ledger: Ledger, backend: Backend, training_job: str, *, watched: bool = True) -> bool:
    """Describe a training job and record its state.

    Args:
        grid: The grid's name.
        ledger: The ledger.
        backend: The service, in the training job's Region.
        training_job: The training job's name; a name of another grid is ignored.
        watched: Whether the child that the ledger names as watching the job may still exist; False if it is gone.

    Returns:
        True if the ledger changed. False if the job is unknown, already final, or its fingerprint does not match the
        claim.
    """
    parsed = names.parse_training_job(grid, training_job)
    seen = backend.describe(training_job) if parsed else None
    if parsed is None or seen is None:
        return False
    record = partial(ledger.record_job, parsed.submission, parsed.index, parsed.attempt)
    if _recorded(partial(record, fingerprint=seen.fingerprint), training_job, seen, watched=watched):
        return True
    # It is another training job than the ledger's, or the service describes the ledger's in a different form.
    tagged = tagged_fingerprint(backend.tags(seen), grid, parsed)
    if tagged in ("", seen.fingerprint):
        return False
    return _recorded(partial(record, fingerprint=tagged), training_job, seen, watched=watched)


def deleted(training_job: str) -> Item:
    """Return the facts of a job whose training job existed, but is no longer known."""
    reason = f"The training job {training_job} no longer exists in SageMaker."
    return {"state": "Failed", "phase": "", "failure": DELETED.name, "reason": reason}


def _recorded(record: Callable[..., bool], training_job: str, seen: Seen, *, watched: bool) -> bool:
    # The name is included because the child may have died between creating the training job and recording it.
    facts, failure = {**seen.facts(), "training_job": training_job}, of_end(seen)
    if failure is None:
        return record(facts)
    facts |= {"failure": failure.name}
    if not (failure.retried and watched):
        return record(facts)
    if record(facts, unless_watched=True):
        return True
    # The child decides whether the job ends here or makes another attempt; `failure` notifies the child.
    return record({name: value for name, value in facts.items() if name != "state"})
