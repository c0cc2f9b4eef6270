"""Launch: creates exactly one training job for an attempt, and none after a cancel.

No lock is needed, because SageMaker accepts a training job's name only once, and all processes that launch an attempt
use the same name: a child that replaces a killed one, two children with one index, a caller whose reply was lost.
Deleting a training job (DeleteTrainingJob) frees its name; traingrid never deletes one, but a person may. A training
job that the ledger has recorded is therefore looked up and never created again. The state InProgress is recorded
directly after the creation. If the child is killed in between, only the name protects the training job, until the next
child, an event or the reconciler records it.

While a person has paused the grid, no training job is created, but existing ones are found and watched. The pause is
read before each creation, and one that cannot be read is in force. After it is recorded, each child sends at most one
CreateTrainingJob request, which was in flight. A recorded shortage of capacity has the same effect, except that a job
with replicas moves to another Region instead (traingrid/child/capacity.py). A spot job near its deadline continues on
demand (traingrid/child/deadline.py).

A cancel may be recorded at any time. It is read before the creation and directly after it. Either the request is not
sent, or the child that sent it stops the training job.

A child may be frozen between its claim and its request, or the network may hold the request, while the line continues
without it. Three rules keep a late request from adding a second training job:

- The request is sent only within minutes of the claim, and expires by AWS's clock (traingrid/late_request.py).
- The claim names the request in the ledger, and its answer removes it. While a request is open, `traingrid retry` does
  not open the next attempt, until the request can no longer be accepted.
- A child whose record is refused reads the line again, and stops its training job if the line has ended or gone on.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

from traingrid.backends.base import LaunchError
from traingrid.backoff import OUTAGE_CAP, PAUSE_CAP, QUOTA_CAP, VISIBLE_WITHIN, backoff_seconds
from traingrid.child.create_requests import Requests, until_late
from traingrid.child.deadline import leave_spot
from traingrid.child.spot_policy import may_leave_spot
from traingrid.job.failures import QUOTA, STOPPED_BY_USER
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.late_request import LateRequestError
from traingrid.ledger.record_outcome import facts_of_deleted
from traingrid.ledger.shortages import Shortage

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.child.spot_policy import SpotPolicy
    from traingrid.job.facts import JobFacts
    from traingrid.ledger.grid_items import Pause
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)
CREATING = "Creating"
"""The phase of an attempt from just before its CreateTrainingJob request is sent until the outcome is known."""


class Launched(Enum):
    """The result of a launch."""

    RUNS = "the training job exists, and may have ended already"
    OVER = "the ledger has a final state of this attempt, or another process has started the next one"


def launch(attempt: Attempt, item: JobItem, policy: SpotPolicy) -> Launched:
    """Create or find the attempt's training job, or record the reason why it has none.

    Waits as long as a quota, a shortage of capacity, throttling or a service error prevents the creation.

    Args:
        item: The job's ledger item before the launch.
        policy: The decisions about its instances, with the known shortages.
    """
    # A rejected request leaves no phase. With a phase, a training job may exist that is not visible yet.
    unresolved, tries, holds = bool(item.training_job and item.phase), 0, 0
    claim, requests = _claim(attempt, item), Requests()
    job, capacity = attempt.job, policy.capacity
    message = f"{job.name}: training job {attempt.name} in {job.region}, {job.ranks} ranks"
    logger.info(message, extra={"event": "launching"})
    while True:
        if attempt.is_cancelled():
            return _cancel(attempt, unresolved)
        obstacle = None if item.was_seen else attempt.ledger.pause() or (None if unresolved else capacity.shortage())
        if obstacle:
            holds += 1
            if not _hold(attempt, item, policy, obstacle, holds):
                return _stop_ended_attempt(attempt, requests)
            item = attempt.item()  # an event may have recorded a training job whose CreateTrainingJob reply was lost
            continue
        may_send = until_late(attempt.clock)
        if not requests.claim(attempt, item, claim):
            return _stop_ended_attempt(attempt, requests)
        unresolved = True
        try:
            with may_send:
                training_job = _begin_job(attempt, item)
        except LateRequestError as error:
            logger.info("%s: %s", attempt.name, error, extra={"event": "late"})
            item = attempt.item()
            continue
        except LaunchError as error:
            unresolved, tries = error.unresolved or item.was_seen, tries + 1
            requests.are_lost |= error.unresolved
            if not _wait(attempt, error, tries, requests, policy):
                return _stop_ended_attempt(attempt, requests)
            item = attempt.item()  # another child with this index may have created the training job
            continue
        if training_job is None and item.was_seen:
            return Launched.RUNS  # or it was deleted, which the watch records when a new job would certainly be visible
        return _record_launch(attempt, training_job, requests)


def _begin_job(attempt: Attempt, item: JobItem) -> TrainingJobDescription | None:
    begin = attempt.backend.attach if item.was_seen else attempt.backend.start
    return begin(attempt.name, attempt.job, attempt.tags)


def _stop_ended_attempt(attempt: Attempt, requests: Requests) -> Launched:
    """Stop the training job of an attempt that is over, if this process has created it, or may have."""
    if (requests.is_created or requests.are_lost) and attempt.is_over():
        is_visible = _stop_when_visible(attempt)
        requests.are_lost &= not is_visible
    if requests.are_open and not requests.are_lost:
        attempt.close_request()
    return Launched.OVER


def _claim(attempt: Attempt, item: JobItem) -> JobFacts:
    """Return the fields that are recorded just before the training job is requested."""
    claim: JobFacts = {"training_job": attempt.name, "batch_child": attempt.batch_child}
    claim["fingerprint"] = attempt.fingerprint
    if attempt.job.residency:  # for lines that begin with the model of this attempt
        claim["residency"] = attempt.job.residency
    if attempt.job.epochs:
        claim["epochs"] = attempt.job.epochs
    if not item.was_seen:
        claim["phase"] = CREATING
    return claim


def _hold(attempt: Attempt, item: JobItem, policy: SpotPolicy, obstacle: Pause | Shortage, tries: int) -> bool:
    """Record why nothing is launched, and wait before the next check; return False if the attempt is over."""
    lacks_capacity = isinstance(obstacle, Shortage)
    if leave_spot(policy, item, lacks_capacity=lacks_capacity, is_paused=not lacks_capacity):
        return False
    if isinstance(obstacle, Shortage):
        if not may_leave_spot(attempt.job) and policy.capacity.move(item, obstacle):
            return False
        event, reason, end = "capacity_wait", obstacle.sentence(), ""
        seconds = policy.capacity.wait_seconds(item, obstacle)
    else:
        event, reason, end = "paused", obstacle.sentence, ". Waiting for `traingrid resume`."
        seconds = backoff_seconds(tries, PAUSE_CAP)
    if not attempt.record({"state": JobState.WAITING, "reason": reason, "failure": ""}):
        return False
    if tries == 1:
        logger.info("%s: %s%s", attempt.name, reason, end, extra={"event": event})
    attempt.clock.sleep(seconds)
    return True


def _wait(attempt: Attempt, error: LaunchError, tries: int, requests: Requests, policy: SpotPolicy) -> bool:
    """Record a launch error, and wait before the next request; return False if the attempt is over."""
    failure = error.failure
    facts: JobFacts = {"reason": error.what, "failure": failure.name, "phase": CREATING if error.unresolved else ""}
    if not failure.retried:
        requests.record(attempt, {**facts, "state": JobState.FAILED})
        return False
    if not attempt.item().was_seen:
        requests.record(attempt, {**facts, "state": JobState.WAITING if failure is QUOTA else JobState.PENDING})
    seconds = backoff_seconds(tries, QUOTA_CAP if failure is QUOTA else OUTAGE_CAP)
    message = f"{attempt.name}: {error.what} {failure.sentence} Retrying in {seconds:.0f} s."
    logger.info(message, extra={"event": "refused", "failure": failure.name, "seconds": seconds})
    attempt.clock.sleep(seconds)
    return not leave_spot(policy, attempt.item())


def _record_launch(attempt: Attempt, training_job: TrainingJobDescription | None, requests: Requests) -> Launched:
    """Record the training job, or stop it if the line has ended, gone on or was cancelled during the creation."""
    requests.is_created = True
    facts: JobFacts = {"state": JobState.IN_PROGRESS, "phase": "Starting"}
    if training_job:
        logger.info("%s already exists: attached to it", attempt.name, extra={"event": "attached"})
        if training_job.identified_by_tag:
            message = "The description of %s differs from its request; its tag shows that it is ours"
            logger.info(message, attempt.name, extra={"event": "identified_by_tag"})
        facts = training_job.facts()
    if (
        training_job is None or not training_job.has_ended
    ):  # the watch records an ended training job, with the rest of its log
        if not requests.record(attempt, {"failure": "", **facts}):
            return _stop_ended_attempt(attempt, requests)
        if attempt.is_cancelled():
            _stop_when_visible(attempt)
    return Launched.RUNS


def _cancel(attempt: Attempt, unresolved: bool) -> Launched:
    """End a cancelled attempt: stop its training job if one exists or may exist, otherwise record the cancel."""
    if _stop_when_visible(attempt, within=VISIBLE_WITHIN if unresolved else 0.0):
        return Launched.RUNS
    cancel = attempt.cancel()
    reason = cancel.before_creation if cancel else "It was stopped before its training job was created."
    if attempt.item().was_seen:
        reason = facts_of_deleted(attempt.name, attempt.backend_name)["reason"]
    attempt.record({"state": JobState.STOPPED, "phase": "", "reason": reason, "failure": STOPPED_BY_USER.name})
    return Launched.OVER


def _stop_when_visible(attempt: Attempt, within: float = VISIBLE_WITHIN) -> bool:
    """Stop the attempt's training job, and wait until a new one is visible; return False if none exists."""
    deadline, tries = attempt.clock.now() + within, 0
    while not attempt.stop():
        if attempt.clock.now() >= deadline:
            return False
        tries += 1
        attempt.clock.sleep(backoff_seconds(tries, 5.0))
    return True
