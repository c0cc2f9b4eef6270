"""Launching an attempt: exactly one training job of its name, and none after a cancel.

There is no lock. What keeps it to one is that SageMaker takes a name once, and that everybody who wants this training
job asks for the same name: a child whose predecessor was killed, two children of one index, whoever's reply was lost.
A name is free again once somebody has deleted its training job (DeleteTrainingJob), which traingrid never does: so
what the ledger has seen is looked for, and not created again. The state InProgress is written by the first call after
the creation; the name alone protects a training job only while a child that was killed in between has not come back,
no event has come, and the reconciler has not looked.

While a person has paused the grid nothing is created; what was is found and watched. The pause is read before each
creation, so that after it is recorded each child sends one CreateTrainingJob at the most, which was on its way.

A cancel may be recorded at any moment. It is read before the creation and again right after it, so that either the
creation is not sent, or whoever has sent it stops what came of it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from traingrid.backends.base import LaunchError, Seen
from traingrid.failures import QUOTA, STOPPED_BY_USER
from traingrid.ledger import FINAL_STATES, PENDING, WAITING, was_seen
from traingrid.recording import deleted
from traingrid.waits import OUTAGE_CAP, PAUSE_CAP, QUOTA_CAP, VISIBLE_WITHIN, backoff_seconds

if TYPE_CHECKING:
    from traingrid.attempt import Attempt
    from traingrid.ledger import Item

CREATING = "Creating"
"""The phase of an attempt whose CreateTrainingJob is about to be sent, or was, and what came of it is not known."""


class Launched(Enum):
    """What came of a launch."""

    RUNS = "there is a training job, which may have ended already"
    OVER = "this attempt has ended in the ledger, or somebody has gone on to the next one"


def launch(attempt: Attempt, item: Item) -> Launched:
    """Bring the attempt's training job into being, or find it, or record why there is none.

    Waits for as long as a quota, throttling or a fault of the service keeps it from being created.

    Args:
        attempt: The attempt.
        item: What the ledger said of it before.
    """
    # A definite refusal leaves no phase; anything else may have left a training job, though it may not be visible yet.
    unresolved, tries, held = bool(item.get("training_job") and item.get("phase")), 0, 0
    claim = {"training_job": attempt.name, "batch_child": attempt.batch_child, "fingerprint": attempt.fingerprint}
    claim |= {} if was_seen(item) else {"phase": CREATING}
    job, tags = attempt.job, attempt.tags
    attempt.say(f"{job.name}: training job {attempt.name} in {job.region}, {job.ranks} ranks", event="launching")
    while True:
        if attempt.cancelled():
            return _cancel(attempt, unresolved)
        pause = None if was_seen(item) else attempt.ledger.pause()
        if pause:
            held += 1
            if not _hold(attempt, pause, held):
                return Launched.OVER
            item = attempt.item()  # an event may have told of a training job whose creation was not answered
            continue
        if not attempt.record(claim):
            return Launched.OVER
        unresolved = True
        try:
            begin = attempt.backend.attach if was_seen(item) else attempt.backend.start
            seen = begin(attempt.name, job, tags)
        except LaunchError as error:
            unresolved, tries = error.unresolved or was_seen(item), tries + 1
            if not _wait(attempt, error, tries):
                return Launched.OVER
            item = attempt.item()  # another child of this index may have been luckier
            continue
        if seen is None and was_seen(item):
            return Launched.RUNS  # or was deleted: the watch waits until a new one would be known, and then says so
        return _launched(attempt, seen)


def _hold(attempt: Attempt, pause: Item, tries: int) -> bool:
    """Record that launching is paused, and wait until it is worth looking again; False if the attempt is over."""
    why = f"Launching has been paused since {pause['at']} by {pause.get('by', '')}: {pause.get('reason', '')}"
    if not attempt.record({"state": WAITING, "reason": why, "failure": ""}):
        return False
    if tries == 1:
        said = f"{attempt.name}: {why}. It is launched when somebody gives `traingrid resume`."
        attempt.say(said, event="paused")
    attempt.clock.sleep(backoff_seconds(tries, PAUSE_CAP))
    return True


def _wait(attempt: Attempt, error: LaunchError, tries: int) -> bool:
    """Record a refusal and wait until it is worth trying again; False if it never will be."""
    failure = error.failure
    facts = {"reason": error.what, "failure": failure.name, "phase": CREATING if error.unresolved else ""}
    if not failure.retried:
        attempt.record({**facts, "state": "Failed"})
        return False
    if not was_seen(attempt.item()):
        attempt.record({**facts, "state": WAITING if failure is QUOTA else PENDING})
    seconds = backoff_seconds(tries, QUOTA_CAP if failure is QUOTA else OUTAGE_CAP)
    said = f"{attempt.name}: {error.what} {failure.sentence} Trying again in {seconds:.0f} s."
    attempt.say(said, event="refused", failure=failure.name, seconds=seconds)
    attempt.clock.sleep(seconds)
    return True


def _launched(attempt: Attempt, seen: Seen | None) -> Launched:
    """Record that there is a training job, unless the attempt was ended or cancelled while it was being created."""
    facts: Item = {"state": "InProgress", "phase": "Starting"}
    if seen:
        attempt.say(f"{attempt.name} exists already: attached to it", event="attached")
        if seen.told_by_tag:
            said = f"{attempt.name} is described in other words than it was asked for; its tag tells that it is ours"
            attempt.say(said, event="told_by_tag")
        facts = seen.facts()
    if seen is None or not seen.ended:  # how it has ended is for the watch to record, with its last words
        if not attempt.record({"reason": "", "failure": "", **facts}):
            _stop_if_nobody_wants_it(attempt)
            return Launched.OVER
        if attempt.cancelled():
            _stop_when_visible(attempt)
    return Launched.RUNS


def _cancel(attempt: Attempt, unresolved: bool) -> Launched:
    """End a cancelled attempt: stop its training job if there is one or may be one, else record that there is none."""
    if _stop_when_visible(attempt, within=VISIBLE_WITHIN if unresolved else 0.0):
        return Launched.RUNS
    reason = "Cancelled before it was started."
    if was_seen(attempt.item()):
        reason = deleted(attempt.name)["reason"]
    attempt.record({"state": "Stopped", "phase": "", "reason": reason, "failure": STOPPED_BY_USER.name})
    return Launched.OVER


def _stop_if_nobody_wants_it(attempt: Attempt) -> None:
    """Stop a training job whose attempt somebody has ended in the ledger between our asking and our creating it."""
    item = attempt.item()
    if item["attempt"] == attempt.number and item["state"] in FINAL_STATES:
        _stop_when_visible(attempt)


def _stop_when_visible(attempt: Attempt, within: float = VISIBLE_WITHIN) -> bool:
    """Stop the attempt's training job; return whether there is one. It may take a while until a new one is known."""
    deadline, tries = attempt.clock.now() + within, 0
    while not attempt.stop():
        if attempt.clock.now() >= deadline:
            return False
        tries += 1
        attempt.clock.sleep(backoff_seconds(tries, 5.0))
    return True
