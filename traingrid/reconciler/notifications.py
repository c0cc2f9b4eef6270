"""Notifications: publishes the events of a grid to an SNS topic, each at least once and as a rule once.

The events of a submission are its first failed job, thresholds of its budget, and its end. A pass has all of their data
already. For a submission that has ended, only the end is published, because its message has the rest. The only other
event is a manifest that was rejected, for which a pass reads the rejections of the last week.

The ledger has a notice for each event (`traingrid.ledger.notices`). If a pass is killed between the publication and
its record, a later one publishes the message again. Nothing else depends on a notification: an error of SNS is recorded
in the pass's result, and the next pass tries again. A message is given up a day after its event, so that a grid that
enables notifications does not report its past.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.backoff import PASS_SECONDS
from traingrid.ledger.damage import intact
from traingrid.ledger.notices import Notice
from traingrid.ledger.spending import running_dollars
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.reconciler.notification_text import Event, message, rejection_message
from traingrid.reconciler.pass_order import rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.notices import NoticeKind
    from traingrid.ledger.rejections import Rejection
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.submissions import SubmissionState
    from traingrid.reconciler.notification_text import Message
    from traingrid.reconciler.pass_report import PassReport

PERCENTAGES = (50, 80, 100)
"""The percentages of a submission's budget that are published, as those of the grid's budget (stacks/budget.py)."""

CLAIM_SECONDS = PASS_SECONDS - 30
"""The time after which the pass that claimed a notice must have ended (`MAX_PASS_DURATION` in stacks/reconciler.py)."""

FORGOTTEN_SECONDS = 24 * 3600
"""The age of an event at which it is no longer published."""

_PATIENCE = 3
"""The number of refused messages after which a pass publishes no more. One unanswered call has the same effect."""


@dataclass(frozen=True, kw_only=True)
class _Publication:
    """An event that is due.

    Attributes:
        name: Its name in the result of the pass.
        read: Its notice, as the pass has read it.
        replace: Replaces the notice; returns False if it has changed since.
    """

    name: str
    read: Notice | None
    occurrence: int
    replace: Callable[[Notice | None, Notice], bool]
    message: Callable[[], Message]


@dataclass(frozen=True, kw_only=True)
class Notifier:
    """The notifications of a grid."""

    grid: str
    home: str
    ledger: Ledger
    publish: Callable[[Message], None]

    def send(self, submissions: Mapping[str, SubmissionState], deadline: float, done: PassReport) -> None:
        """Publish the events of all submissions, and all rejections, that are not published yet.

        Each pass begins with another one, so that messages that SNS refuses do not delay all others.

        Args:
            submissions: The submissions, as the pass read them.
            deadline: The time at which the pass starts no more work.
        """
        pass_number = int(time.time() // PASS_SECONDS)
        sources = {name: partial(self._submission_publications, submission) for name, submission in submissions.items()}
        rejections = intact(self.ledger.rejections())
        sources |= {rejection.identity: partial(self._rejection_publications, rejection) for rejection in rejections}
        for _, publications in rotated(sources.items(), lambda entry: entry[0], pass_number):
            for publication in publications():
                if time.time() >= deadline or len(done.unsent) >= _PATIENCE:
                    return
                try:
                    if self._send(publication):
                        done.notified.append(publication.name)
                except ClientError as error:
                    done.unsent[publication.name] = str(error)
                except BotoCoreError as error:
                    done.unsent[publication.name] = str(error)
                    return

    def _submission_publications(self, submission: SubmissionState) -> Iterator[_Publication]:
        for event in due(submission, time.time()):
            yield _Publication(
                name=f"{event.head.submission} {event.kind} {event.occurrence}",
                read=event.head.notices.get(event.kind),
                occurrence=event.occurrence,
                replace=partial(self.ledger.replace_notice, event.head.submission, event.kind),
                message=partial(message, self.grid, self.home, event),
            )

    def _rejection_publications(self, rejection: Rejection) -> Iterator[_Publication]:
        now, notice = time.time(), rejection.notice_rejected
        if now - epoch_seconds(rejection.at) < FORGOTTEN_SECONDS and _is_open(notice, 0, now):
            yield _Publication(
                name=f"{rejection.identity} rejected 0",
                read=notice,
                occurrence=0,
                replace=partial(self.ledger.replace_rejection_notice, rejection),
                message=partial(rejection_message, self.grid, self.home, rejection),
            )

    def _send(self, publication: _Publication) -> bool:
        """Claim a notice, publish its message and record that; return False if another pass has claimed it."""
        claim = Notice(occurrence=publication.occurrence, claimed_at=int(time.time()))
        if not publication.replace(publication.read, claim):
            return False
        try:
            self.publish(publication.message())
        except (BotoCoreError, ClientError):
            publication.replace(claim, replace(claim, claimed_at=0))
            raise
        return publication.replace(claim, replace(claim, published=True))


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
