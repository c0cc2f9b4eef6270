"""Recording: writes the state of a training job, as the service describes it, to the ledger.

Events may be repeated, late or out of order. So this module does not use their content, but asks the service. A final
state in the ledger does not change. If traingrid retries a failure automatically and a child watches the job, the
module records the failure but not a final state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.job.backend_traits import TRAITS
from traingrid.job.failures import (
    CAPACITY,
    DEADLINE,
    DELETED,
    FAILURES,
    RETURN_TO_SPOT,
    STOPPED_BY_USER,
    failure_of_end,
)
from traingrid.job.ownership import tagged_fingerprint
from traingrid.job.state import JobState
from traingrid.ledger.items import JobKey
from traingrid.ledger.preconditions import Precondition

if TYPE_CHECKING:
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.facts import JobFacts
    from traingrid.job.observed import Describer, TrainingJobDescription
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.user_requests import Cancel


def record_seen(  # noqa: PLR0913  # one keyword for each independent option
    grid: str,
    ledger: Ledger,
    backend: Describer,
    training_job: str,
    *,
    watched: bool = True,
    cancel: Cancel | None = None,
) -> bool:
    """Describe a training job and record its state.

    Args:
        backend: The service, in the training job's Region.
        training_job: The training job's name; a name of another grid is ignored.
        watched: Whether the child that the ledger names as watching the job may still exist; False if it is gone.
        cancel: The recorded cancel that includes the job; None without one, and for a caller that may not read it.

    Returns:
        True if the ledger changed. False if the job is unknown, already final, or its fingerprint does not match the
        claim.
    """
    parsed = names.parse_training_job(grid, training_job)
    observed = backend.describe(training_job) if parsed else None
    if parsed is None or observed is None:
        return False
    key = JobKey(submission=parsed.submission, index=parsed.index, attempt=parsed.attempt)

    def record(fingerprint: str) -> bool:
        required = [Precondition(fingerprint=fingerprint, stopped_for=reason) for reason in _stop_reasons(observed)]
        facts = (
            with_reason_of_stop(_observed_facts(training_job, observed, precondition), cancel)
            for precondition in required
        )
        return any(
            _record_facts(ledger, key, *facts_and_precondition, watched=watched)
            for facts_and_precondition in zip(facts, required, strict=True)
        )

    if record(observed.fingerprint):
        return True
    # It is another training job than the ledger's, or the service describes the ledger's in a different form.
    tagged = tagged_fingerprint(backend.tags(observed), grid, parsed)
    return tagged not in ("", observed.fingerprint) and record(tagged)


def with_reason_of_stop(facts: JobFacts, cancel: Cancel | None) -> JobFacts:
    """Return the facts of a training job, with the reason of a cancel that has stopped it, if they have no reason."""
    if cancel is None or facts.get("reason") or facts.get("failure") != STOPPED_BY_USER.name:
        return facts
    return {**facts, "reason": cancel.while_stopping}


def facts_of_deleted(training_job: str, backend: BackendName) -> JobFacts:
    """Return the facts of a job whose training job existed, but is no longer known to its service."""
    reason = f"The training job {training_job} no longer exists in {TRAITS[backend].service}."
    return {"state": JobState.FAILED, "phase": "", "failure": DELETED.name, "reason": reason}


def _stop_reasons(observed: TrainingJobDescription) -> tuple[str | None, ...]:
    """Return the values of `JobItem.stopped_for` for which an end has different failure classes; None for any value.

    They become conditions of writes, because the recorder of events may not read the ledger.
    """
    return ("", CAPACITY.name, DEADLINE.name, RETURN_TO_SPOT.name) if observed.state == JobState.STOPPED else (None,)


def _observed_facts(training_job: str, observed: TrainingJobDescription, required: Precondition) -> JobFacts:
    # The name is included because the child may have died between creating the training job and recording it.
    facts, failure = observed.facts(), failure_of_end(observed, required.stopped_for or "")
    facts["training_job"] = training_job
    if failure or observed.has_ended:  # the failure of a refused request ends with it
        facts["failure"] = failure.name if failure else ""
    return facts


def _record_facts(ledger: Ledger, key: JobKey, facts: JobFacts, precondition: Precondition, *, watched: bool) -> bool:
    """Record facts, but no final state if a child watches the job and the failure is retried."""
    failure = FAILURES.get(facts.get("failure", ""))
    is_retried_by_child = watched and failure is not None and failure.retried
    # `watched` may be out of date: the write itself checks that no child watches the job.
    if ledger.record_description(key, facts, replace(precondition, unless_watched=is_retried_by_child)):
        return True
    if not is_retried_by_child:
        return False
    # The child decides whether the job ends here or makes another attempt; `failure` notifies the child.
    facts_without_state = facts.copy()
    del facts_without_state["state"]
    return ledger.record_description(key, facts_without_state, precondition)
