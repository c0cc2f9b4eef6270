"""Notification text: the messages about an event, as an email and as an event for chats and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.aws.console import batch_job_address, cluster_address, console_address, folder_address
from traingrid.job.candidates import place
from traingrid.job.state import JobState
from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.ledger.items import JobItem
    from traingrid.ledger.notices import NoticeKind
    from traingrid.ledger.rejections import Rejection
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.submissions import SubmissionState

_MAX_REASON_LENGTH = 500
"""The maximum number of characters of a reason, which may contain output of the training."""
_MAX_FILE_LENGTH = 32
"""The maximum number of characters of a manifest's name in a subject, which SNS limits to 99."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of a submission.

    Attributes:
        occurrence: Its number (`Notice.occurrence`).
        spent: The dollars that the submission has cost so far; 0 if they are not known.
    """

    head: SubmissionItem
    submission: SubmissionState
    kind: NoticeKind
    occurrence: int
    spent: float

    @property
    def sentence(self) -> str:
        """The end of a sentence that begins with the submission's id."""
        if self.kind == "end":
            return f"has ended: {_counts(self.submission)}"
        if self.kind == "budget":
            return f"has spent {self.occurrence} % of its budget"
        return "has its first failed job"


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message.

    Attributes:
        identifier: Its identity: the grid, the submission, the event and its occurrence.
        thread: The identity that all messages of a submission share.
        kind: The kind of the event: that of a notice, or "rejected".
        subject: A summary in one line.
        facts: The other lines, by name.
        commands: The commands to investigate.
        console: The address of a page in the AWS console.
    """

    identifier: str
    thread: str
    kind: str
    subject: str
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    console: str

    def email(self) -> str:
        """Return the text of an email."""
        facts = [f"{name}: {value}" for name, value in self.facts]
        commands = [f"    {command}" for command in self.commands]
        console = ["AWS console:", f"    {self.console}"]
        return "\n".join([f"{self.subject}.", "", *facts, "", "To investigate:", *commands, "", *console, ""])

    def event(self) -> dict[str, Any]:
        """Return the event in the schema of custom notifications of Amazon Q Developer in chat applications.

        https://docs.aws.amazon.com/chatbot/latest/adminguide/custom-notifs.html
        """
        facts = [f"*{name}*: `{_unformatted(value)}`" for name, value in self.facts]
        content = {
            "textType": "client-markdown",
            "title": _unformatted(self.subject),
            "description": "\n".join([*facts, f"AWS console: {self.console}"]),
            "nextSteps": [f"`{command}`" for command in self.commands],
            "keywords": ["traingrid"],
        }
        metadata = {"threadId": self.thread, "summary": _unformatted(self.subject), "eventType": self.kind}
        return {"version": "1.0", "source": "custom", "id": self.identifier, "content": content, "metadata": metadata}


def message(grid: str, home: str, event: Event) -> Message:
    """Return the message about an event of a submission."""
    name, failed = event.head.submission, event.submission.first_failed
    job_item = failed or _with_training_job(event.submission)
    return Message(
        identifier=f"{grid}-{name}-{event.kind}-{event.occurrence}",
        thread=f"{grid}-{name}",
        kind=event.kind,
        subject=f"traingrid {grid}: submission {name} ({_file(event.head.manifest)}) {event.sentence}",
        facts=tuple(_facts(event)),
        commands=tuple(_commands(name, failed)),
        console=_console(job_item) if job_item else console_address(home),
    )


def rejection_message(grid: str, home: str, rejection: Rejection) -> Message:
    """Return the message about a manifest, or a Batch job, that was rejected."""
    identifier, job = f"{grid}-{rejection.identity}", rejection.batch_job
    file = _file(rejection.manifest)
    event = f"{file} was {'rejected' if rejection.errors else 'not read'}, and nothing of it trains"
    if job:
        event = f"a Batch job with {file} was refused, and trains nothing"
    return Message(
        identifier=f"{identifier}-rejected-0",
        thread=identifier,
        kind="rejected",
        subject=f"traingrid {grid}: {event}",
        facts=tuple(_rejection_facts(rejection)),
        commands=("traingrid status",),
        console=batch_job_address(home, job) if job else folder_address(home, rejection.manifest),
    )


def _rejection_facts(rejection: Rejection) -> Iterator[tuple[str, str]]:
    yield "Manifest", _shortened(rejection.manifest)
    if rejection.batch_job:
        yield "Batch job", rejection.batch_job
    yield "Time", rejection.at
    if rejection.errors > 1:
        yield "Errors", f"{rejection.errors:,}, all in {_shortened(rejection.place_of_errors)}"
    yield "Reason", _shortened(rejection.reason_sentences)


def _console(item: JobItem) -> str:
    if item.backend == "sagemaker":
        return console_address(item.region, item.training_job)
    # The ARN of a training job on EKS begins with that of its cluster: arn:aws:eks:REGION:ACCOUNT:cluster/NAME/...
    return cluster_address(item.region, item.training_job_arn.partition("/")[2].partition("/")[0])


def _facts(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the lines of a message; names and reasons come from users and trainings, so they are escaped."""
    submission, submission_item, spent = event.submission, event.head, event.spent
    yield "Jobs", f"{submission_item.jobs}, of which {_counts(submission)}"
    yield "Manifest", _shortened(submission_item.manifest)
    if spent:
        budget = f" of a budget of ${submission_item.budget_dollars:,.2f}" if submission_item.budget_dollars else ""
        yield "Cost", f"${spent:,.2f}{budget}, without transfer and orchestration"
    for cancel in list(submission.cancels.values())[:1]:
        yield "Cancel", _shortened(cancel.sentence)
    if failed := submission.first_failed:
        job_text = f"job {failed.index} ({_shortened(failed.name)}) in {place(*failed.candidate)}"
        failure = f" ({failed.failure})" if failed.failure else ""
        reason = _shortened(_one_line(failed.reason)) or "no reason was recorded"
        yield "First failure", f"{job_text}{failure}: {reason}"


def _counts(submission: SubmissionState) -> str:
    """Return the number of jobs by state: "2 completed, 1 failed, 1 running or waiting"."""
    unfinished = len(submission.live) + len(submission.unopened)
    ended = {state: submission.ended[state] for state in (JobState.COMPLETED, JobState.FAILED, JobState.STOPPED)}
    counts = [f"{number} {state.lower()}" for state, number in ended.items() if number]
    if unfinished:
        counts.append(f"{unfinished} running or waiting")
    return ", ".join(counts)


def _commands(name: str, failed: JobItem | None) -> Iterator[str]:
    yield f"traingrid status {name}"
    if failed:
        yield f"traingrid describe {name} {failed.index}"
        yield f"traingrid logs {name} {failed.index}" + ("" if failed.training_job else " --child")


def _with_training_job(submission: SubmissionState) -> JobItem | None:
    """Return a job that has a training job: the one that ended last, or the first one that runs."""
    candidates = [submission.last_ended, *submission.live.values()]
    return next((item for item in candidates if item and item.training_job), None)


def _file(manifest: str) -> str:
    """Return the name of a manifest without its folder, at most 32 characters of it."""
    name = printable(manifest.rpartition("/")[2])
    return name if len(name) <= _MAX_FILE_LENGTH else f"{name[: _MAX_FILE_LENGTH - 3]}..."


def _one_line(reason: str) -> str:
    """Return the lines of a reason, which may end with a traceback, beside each other."""
    return " | ".join(line.strip() for line in reason.split("\n") if line.strip(" ~^\r"))


def _shortened(text: str) -> str:
    """Return a text in one line of limited length, with control characters as escapes."""
    plain = printable(text)
    return plain if len(plain) <= _MAX_REASON_LENGTH else f"{plain[:_MAX_REASON_LENGTH]}..."


def _unformatted(text: str) -> str:
    """Return a text without the characters with which a chat formats text, links and mentions.

    https://api.slack.com/reference/surfaces/formatting
    """
    for character, replacement in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("`", "'")):
        text = text.replace(character, replacement)
    return text
