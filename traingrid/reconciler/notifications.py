"""Notifications: publishes the events of submissions to an SNS topic, each at least once and as a rule once.

A pass has all data of an event already: no other request than those that claim, publish and record it is necessary.
The events are the first failed job of a submission, thresholds of its budget, and its end. For a submission that has
ended, only the end is published, because its message has the rest.

The ledger has a notice for each event (`traingrid.ledger.notices`). If a pass is killed between the publication and
its record, a later one publishes the message again. Nothing else depends on a notification: an error of SNS is recorded
in the pass's result, and the next pass tries again. A message is given up a day after its event, so that a grid that
enables notifications does not report its past.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.backoff import PASS_SECONDS
from traingrid.ledger.notices import Notice
from traingrid.ledger.spending import running_dollars
from traingrid.reconciler.notification_text import Event, message
from traingrid.reconciler.pass_order import rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.notices import NoticeKind
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.submissions import SubmissionState
    from traingrid.reconciler.notification_text import Message
    from traingrid.reconciler.pass_report import PassReport

PERCENTAGES = (50, 80, 100)
"""The percentages of a submission's budget that are published, as those of the grid's budget (stacks/budget.py)."""

CLAIM_SECONDS = PASS_SECONDS - 30
"""The time after which the pass that claimed a notice must have ended (`LONGEST_PASS` in stacks/reconciler.py)."""

FORGOTTEN_SECONDS = 24 * 3600
"""The age of an event at which it is no longer published."""

_PATIENCE = 3
"""The number of refused messages after which a pass publishes no more. One unanswered call has the same effect."""


@dataclass(frozen=True, kw_only=True)
class Notifier:
    """The notifications of a grid."""

    grid: str
    home: str
    ledger: Ledger
    publish: Callable[[Message], None]

    def send(self, submissions: Mapping[str, SubmissionState], until: float, done: PassReport) -> None:
        """Publish the events of all submissions that are not published yet.

        Each pass begins with another submission, so that messages that SNS refuses do not delay all others.

        Args:
            submissions: The submissions, as the pass read them.
            until: The time at which the pass starts no more work.
        """
        pass_number = int(time.time() // PASS_SECONDS)
        for _, submission in rotated(submissions.items(), lambda entry: entry[0], pass_number):
            for event in due(submission, time.time()):
                if time.time() >= until or len(done.unsent) >= _PATIENCE:
                    return
                name = f"{event.head.submission} {event.kind} {event.occurrence}"
                try:
                    if self._send(event):
                        done.notified.append(name)
                except ClientError as error:
                    done.unsent[name] = str(error)
                except BotoCoreError as error:
                    done.unsent[name] = str(error)
                    return

    def _send(self, event: Event) -> bool:
        """Claim a notice, publish its message and record that; return False if another pass has claimed it."""
        name, read = event.head.submission, event.head.notices.get(event.kind)
        claim = Notice(occurrence=event.occurrence, claimed_at=int(time.time()))
        if not self.ledger.replace_notice(name, event.kind, read, claim):
            return False
        try:
            self.publish(message(self.grid, self.home, event))
        except (BotoCoreError, ClientError):
            self.ledger.replace_notice(name, event.kind, claim, replace(claim, claimed_at=0))
            raise
        return self.ledger.replace_notice(name, event.kind, claim, replace(claim, published=True))


def due(submission: SubmissionState, now: float) -> Iterator[Event]:
    """Yield the events of a submission that are to be published.

    Args:
        now: The time in seconds since 1970.
    """
    submission_item, spent = submission.head, spent_dollars(submission, now)
    if submission_item is None:
        return
    for kind, occurrence in _events(submission, submission_item, spent, now):
        if _is_open(submission_item.notices.get(kind), occurrence, now):
            yield Event(head=submission_item, submission=submission, kind=kind, occurrence=occurrence, spent=spent)


def is_told(submission: SubmissionState, now: float) -> bool:
    """Return True if the end of a submission is published, or too old to be published.

    Args:
        submission: A submission that has ended.
        now: The time in seconds since 1970.
    """
    end = submission.head.notices.get("end") if submission.head else None
    is_published = end is not None and end.published and end.occurrence >= submission.reopened
    return is_published or now - submission.ended_at >= FORGOTTEN_SECONDS


def _events(
    submission: SubmissionState, submission_item: SubmissionItem, spent: float, now: float
) -> Iterator[tuple[NoticeKind, int]]:
    """Yield the kind and the occurrence of each event of a submission within the last day."""
    if submission.has_ended:
        if now - submission.ended_at < FORGOTTEN_SECONDS:
            yield "end", submission.reopened
        return
    failed, budget = submission.first_failed, submission_item.budget_dollars
    if failed and now - failed.changed_at < FORGOTTEN_SECONDS:
        yield "first_failure", 0
    if reached := [percentage for percentage in PERCENTAGES if budget and spent >= budget * percentage / 100]:
        yield "budget", reached[-1]


def _is_open(notice: Notice | None, occurrence: int, now: float) -> bool:
    """Return True if an event is not published, and no running pass publishes it."""
    if notice is None or notice.occurrence < occurrence:
        return True
    return not notice.published and now - notice.claimed_at >= CLAIM_SECONDS


def spent_dollars(submission: SubmissionState, now: float) -> float:
    """Return the dollars that a submission has cost so far; 0 if the ledger has no prices.

    Args:
        now: The time in seconds since 1970.
    """
    return submission.ended_dollars + sum(running_dollars(item, now) for item in submission.live.values())
