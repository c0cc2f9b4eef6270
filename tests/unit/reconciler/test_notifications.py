"""Notifications: a pass publishes each event of a submission, once unless it is killed, and never fails for it."""

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto.sns.models import sns_backends

from tests.support.ledger_items import existing, job_key
from tests.support.reconciler_world import World
from tests.support.sample_deployment import ACCOUNT
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.damage import intact
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.notices import Notice, NoticeKind
from traingrid.ledger.rejections import Rejection
from traingrid.ledger.timestamps import timestamp
from traingrid.reconciler import notifications as notifying
from traingrid.reconciler.notification_text import Message
from traingrid.reconciler.notifications import CLAIM_SECONDS, FORGOTTEN_SECONDS, Notifier
from traingrid.reconciler.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("aws")

HOME = "us-east-1"
SUBMISSION = "0123abcd"
HOUR = 3600
DELETED = ClientError({"Error": {"Code": "NotFound", "Message": "Topic does not exist"}}, "Publish")
SILENT = EndpointConnectionError(endpoint_url="https://sns.us-east-1.amazonaws.com")


class Killed(BaseException):
    """Ends a pass as the end of its process does."""


class Topic:
    """A topic under the control of a test.

    Attributes:
        messages: The accepted messages.
        fails: The error of every call.
        dies: The process ends after a message was accepted.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.fails: Exception | None = None
        self.dies = False

    def publish(self, message: Message) -> None:
        if self.fails:
            raise self.fails
        self.messages.append(message)
        if self.dies:
            raise Killed

    def subjects(self) -> list[str]:
        start = "traingrid traingrid: submission "
        return [message.subject.removeprefix(start).replace(" (y.csv)", "") for message in self.messages]


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def reconciler(reconciler: Reconciler, ledger: Ledger, topic: Topic) -> Reconciler:
    reconciler.notifications = Notifier(grid="traingrid", home=HOME, ledger=ledger, publish=topic.publish)
    return reconciler


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Advance the clock of the notifications by some seconds."""

    def advance(seconds: float) -> None:
        monkeypatch.setattr(notifying, "time", SimpleNamespace(time=lambda: time.time() + seconds))

    return advance


def submit(ledger: Ledger, job: Job, lines: int = 3, budget: float | None = None, submission: str = SUBMISSION) -> None:
    """Submit lines with two instances at $10 an hour each."""
    facts: Any = {"jobs": lines, "manifest": "s3://x/manifests/y.csv", "version": "1"}
    ledger.claim_submission(submission, "test", facts | ({} if budget is None else {"budget_dollars": budget}))
    ledger.record_submitted(submission, "array")
    prices = {"dollars_per_hour": 10.0, "budget_dollars": budget, "instance_count": 2}
    for index in range(lines):
        ledger.open_job(submission, job.model_copy(update={"index": index, "region": HOME, **prices}))


def ends(ledger: Ledger, index: int, state: str, attempt: int = 1, submission: str = SUBMISSION, **facts: Any) -> None:
    name = f"traingrid-{submission}-{index}-{attempt}"
    recorded: Any = {"state": JobState(state), "training_job": name, "training_job_arn": f"arn:{name}", **facts}
    assert ledger.record_job(job_key(index, attempt=attempt, submission=submission), recorded)


def runs(world: World, ledger: Ledger, index: int, hours: float) -> None:
    world.runs(SUBMISSION, index, HOME)
    started = int(time.time() - hours * HOUR)
    ledger.record_job(job_key(index), {"state": JobState.IN_PROGRESS, "training_started_at": started})


def retry(ledger: Ledger, index: int) -> None:
    tried: AttemptFacts = {"region": HOME, "state": JobState.FAILED}
    assert ledger.next_attempt(job_key(index), tried, HOME, reopen=f"retry-{index}")


def test_the_end_of_a_submission_is_published_once_with_its_counts(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic
) -> None:
    submit(ledger, job)
    ends(ledger, 0, "Completed")
    ends(ledger, 1, "Stopped")
    reconciler.run_pass()
    assert topic.messages == [], "a job runs"
    ends(ledger, 2, "Completed")
    assert reconciler.run_pass().notified == [f"{SUBMISSION} end 0"]
    assert reconciler.run_pass().notified == []
    assert topic.subjects() == [f"{SUBMISSION} has ended: 2 completed, 1 stopped"]
    assert topic.messages[0].commands == (f"traingrid status {SUBMISSION}",)
    assert topic.messages[0].console.endswith(f"#/jobs/traingrid-{SUBMISSION}-0-1")


def test_the_first_failure_is_published_while_other_jobs_run(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic
) -> None:
    submit(ledger, job)
    ends(ledger, 1, "Failed", failure="algorithm", reason="AlgorithmError: no\x1b[31m data")
    reconciler.run_pass()
    ends(ledger, 0, "Failed")
    reconciler.run_pass()
    (message,) = topic.messages
    assert message.subject.endswith(f"submission {SUBMISSION} (y.csv) has its first failed job")
    name = existing(ledger.job(SUBMISSION, 1)).name
    why = f"job 1 ({name}) in {HOME} (algorithm): AlgorithmError: no\\x1b[31m data"
    assert dict(message.facts)["First failure"] == why
    assert dict(message.facts)["Jobs"] == "3, of which 1 failed, 2 running or waiting"
    commands = ("status {}", "describe {} 1", "logs {} 1")
    assert message.commands == tuple(f"traingrid {command.format(SUBMISSION)}" for command in commands)


def test_a_submission_that_ends_with_its_first_failure_causes_one_message(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic
) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Failed", reason="AlgorithmError: no data")
    reconciler.run_pass()
    reconciler.run_pass()
    assert topic.subjects() == [f"{SUBMISSION} has ended: 1 failed"]
    assert "AlgorithmError: no data" in topic.messages[0].email()


def test_a_job_without_training_job_is_investigated_in_the_log_of_its_child(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic
) -> None:
    submit(ledger, job, lines=1)
    ledger.record_job(job_key(0), {"state": JobState.FAILED, "reason": "Its Batch child is FAILED: no host"})
    reconciler.run_pass()
    assert topic.messages[0].commands[-1] == f"traingrid logs {SUBMISSION} 0 --child"
    assert topic.messages[0].console == f"https://{HOME}.console.aws.amazon.com/sagemaker/home?region={HOME}#/jobs"


def test_the_end_after_a_retry_is_published_again(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic
) -> None:
    submit(ledger, job, lines=2)
    ends(ledger, 0, "Completed")
    ends(ledger, 1, "Failed")
    reconciler.run_pass()
    retry(ledger, 1)
    reconciler.run_pass()
    ends(ledger, 1, "Completed", attempt=2)
    reconciler.run_pass()
    assert topic.subjects() == [
        f"{SUBMISSION} has ended: 1 completed, 1 failed",
        f"{SUBMISSION} has ended: 2 completed",
    ]


def test_each_percentage_of_a_budget_is_published_once_and_the_last_with_the_cancel(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic
) -> None:
    submit(ledger, job, lines=2, budget=100.0)
    ends(ledger, 0, "Completed", billable_seconds=2 * HOUR)
    runs(world, ledger, 1, hours=0.1)
    reconciler.run_pass()
    assert topic.messages == [], "$42 of $100"
    ledger.record_job(job_key(1), {"training_started_at": int(time.time() - 2.1 * HOUR)})
    reconciler.run_pass()
    reconciler.run_pass()
    assert topic.subjects() == [f"{SUBMISSION} has spent 80 % of its budget"], "50 % passed in the same pass"
    assert "Cost: $82.0" in topic.messages[0].email()
    ledger.record_job(job_key(1), {"training_started_at": int(time.time() - 3.5 * HOUR)})
    reconciler.run_pass()
    assert topic.subjects()[1:] == [f"{SUBMISSION} has spent 100 % of its budget"]
    assert "the budget of $100.00 is reached" in dict(topic.messages[1].facts)["Cancel"]


def test_a_killed_pass_leaves_a_claim_after_which_the_message_is_published_again(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic, later: Any
) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    topic.dies = True
    with pytest.raises(Killed):
        reconciler.run_pass()
    topic.dies = False
    reconciler.run_pass()
    assert len(topic.messages) == 1, "the first pass may still be running"
    later(CLAIM_SECONDS + 1)
    reconciler.run_pass()
    reconciler.run_pass()
    assert [message.identifier for message in topic.messages] == [f"traingrid-{SUBMISSION}-end-0"] * 2


def test_a_pass_that_dies_before_it_publishes_delays_the_message(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic, later: Any
) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    sender = reconciler.notifications
    assert sender

    def dies(_: Message) -> None:
        raise Killed

    reconciler.notifications = replace(sender, publish=dies)
    with pytest.raises(Killed):
        reconciler.run_pass()
    reconciler.notifications = sender
    later(CLAIM_SECONDS + 1)
    reconciler.run_pass()
    assert topic.subjects() == [f"{SUBMISSION} has ended: 1 completed"]


def test_of_two_passes_at_once_one_publishes(reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    sender = reconciler.notifications
    assert sender

    def during_another_pass(message: Message) -> None:
        reconciler.notifications = sender
        reconciler.run_pass()
        topic.publish(message)

    reconciler.notifications = replace(sender, publish=during_another_pass)
    reconciler.run_pass()
    assert len(topic.messages) == 1


@pytest.mark.parametrize("error", [DELETED, SILENT])
def test_an_error_of_sns_fails_no_pass_and_the_next_one_tries_again(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic, error: Exception
) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    topic.fails = error
    done = reconciler.run_pass()
    assert (done.notified, list(done.unsent), done.unreachable) == ([], [f"{SUBMISSION} end 0"], {})
    topic.fails = None
    assert reconciler.run_pass().notified == [f"{SUBMISSION} end 0"]


def test_lines_are_closed_while_sns_fails(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic
) -> None:
    submit(ledger, job, lines=2)
    ends(ledger, 0, "Failed")
    topic.fails, world.children = SILENT, {1: "FAILED"}
    assert reconciler.run_pass().closed == [f"traingrid-{SUBMISSION}-1-1"]


@pytest.mark.parametrize("error", [DELETED, SILENT])
def test_a_pass_gives_up_after_three_refusals_or_one_missing_answer(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic, error: Exception
) -> None:
    for number in range(5):
        submit(ledger, job, lines=1, submission=f"0000000{number}")
        ends(ledger, 0, "Completed", submission=f"0000000{number}")
    topic.fails = error
    assert len(reconciler.run_pass().unsent) == (3 if error is DELETED else 1)


def test_a_pass_without_time_publishes_nothing(reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    reconciler.run_pass(within=0.0)
    assert topic.messages == []


def test_events_of_the_past_are_not_published(
    reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic, later: Any
) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    later(FORGOTTEN_SECONDS + 1)
    reconciler.run_pass()
    assert topic.messages == []


def test_the_reconciler_of_a_deployment_publishes_to_its_topic(deployment: Deployment) -> None:
    arn = boto3.client("sns", HOME).create_topic(Name="notifications")["TopicArn"]
    found = Reconciler.of(replace(deployment, topic=arn)).notifications
    assert found is not None
    texts: dict[str, Any] = {"identifier": "1", "thread": "1", "console": "", "facts": (), "commands": ()}
    found.publish(Message(kind="end", subject="one ended", **texts))
    ((_, message, subject, *_),) = sns_backends[ACCOUNT][HOME].topics[arn].sent_notifications
    assert (found.grid, found.home, subject) == ("traingrid", HOME, "one ended")
    assert json.loads(message)["email"].startswith("one ended.")
    assert Reconciler.of(deployment).notifications is None


def test_a_grid_without_notifications_records_no_notice(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    reconciler.notifications = None
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    reconciler.run_pass()
    assert existing(ledger.submission(SUBMISSION)).notices == {}


def test_a_notice_is_read_as_it_was_recorded(reconciler: Reconciler, ledger: Ledger, job: Job, topic: Topic) -> None:
    submit(ledger, job, lines=1)
    ends(ledger, 0, "Completed")
    before = int(time.time())
    reconciler.run_pass()
    kind: NoticeKind = "end"
    notice = existing(ledger.submission(SUBMISSION)).notices[kind]
    assert (notice.published, notice.occurrence) == (True, 0)
    assert timestamp(before) <= timestamp(notice.claimed_at)


def rejected(ledger: Ledger, hours: float = 0.0, **changes: Any) -> Rejection:
    """Record a rejection some hours ago."""
    fields: Any = {"manifest": "s3://x/manifests/y.csv", "version": "1", "errors": 2, "reason": "line 1: no\x1bRegion."}
    rejection = Rejection(at=timestamp(time.time() - hours * HOUR), **(fields | changes))
    ledger.record_rejection(rejection)
    return rejection


def test_a_rejected_manifest_is_published_once_with_its_first_error(
    reconciler: Reconciler, ledger: Ledger, topic: Topic
) -> None:
    rejection = rejected(ledger)
    assert reconciler.run_pass().notified == [f"{rejection.identity} rejected 0"]
    assert reconciler.run_pass().notified == []
    (message,) = topic.messages
    assert message.subject == "traingrid traingrid: y.csv was rejected, and nothing of it trains"
    assert dict(message.facts)["Errors"] == "2, all in s3://x/manifests/y.csv.report.json"
    assert dict(message.facts)["Reason"] == "Line 1: no\\x1bRegion."
    assert (message.event()["metadata"]["eventType"], message.commands) == ("rejected", ("traingrid status",))


def test_a_refused_batch_job_is_published_with_its_id(reconciler: Reconciler, ledger: Ledger, topic: Topic) -> None:
    rejected(ledger, batch_job="8c1f")
    rejected(ledger)
    reconciler.run_pass()
    assert {dict(message.facts).get("Batch job", "") for message in topic.messages} == {"", "8c1f"}


def test_a_rejection_is_published_again_after_an_error_of_sns_or_a_kill_and_given_up_after_a_day(
    reconciler: Reconciler, ledger: Ledger, topic: Topic, later: Any
) -> None:
    rejected(ledger, hours=25)
    name = f"{rejected(ledger).identity} rejected 0"
    topic.fails = DELETED
    assert [*reconciler.run_pass().unsent] == [name]
    topic.fails, topic.dies = None, True
    with pytest.raises(Killed):
        reconciler.run_pass()
    topic.dies = False
    assert reconciler.run_pass().notified == [], "the killed pass may still publish it"
    later(CLAIM_SECONDS + 1)
    assert reconciler.run_pass().notified == [name]
    later(FORGOTTEN_SECONDS)
    assert reconciler.run_pass().notified == []
    assert len(topic.messages) == 2


def test_a_pass_whose_claim_another_one_has_taken_does_not_publish_a_rejection(ledger: Ledger) -> None:
    rejection = rejected(ledger)
    claim = Notice(occurrence=0, claimed_at=int(time.time()))
    assert ledger.replace_rejection_notice(rejection, None, claim)
    assert not ledger.replace_rejection_notice(rejection, None, claim)
    (stored,) = intact(ledger.rejections())
    assert stored.notice_rejected == claim
