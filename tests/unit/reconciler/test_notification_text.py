"""Notification text: messages are short, in the form of their protocol, and cannot be formatted by their data."""

import json
from typing import Any

import pytest

from tests.support.ledger_items import SUBMISSION
from tests.support.rows import each_row
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.submissions import group_by_submission
from traingrid.ledger.user_requests import Cancel
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.reconciler.notification_text import Event, Message, message, rejection_message
from traingrid.submission.intake_failure import rejection

OPENED = "2026-11-20T10:00:00Z"
FIELDS: dict[str, dict[str, type]] = {
    # https://docs.aws.amazon.com/chatbot/latest/adminguide/custom-notifs.html
    "content": {"textType": str, "title": str, "description": str, "nextSteps": list, "keywords": list},
    "metadata": {
        "threadId": str,
        "summary": str,
        "eventType": str,
        "relatedResources": list,
        "additionalContext": dict,
    },
}


def a_message(reason: str = "", name: str = "cats", **head: Any) -> Message:
    job = JobItem(
        submission=SUBMISSION,
        index=3,
        attempt=1,
        state=JobState.FAILED,
        name=name,
        region="eu-west-1",
        regions=("eu-west-1",),
        opened_at=OPENED,
        training_job="traingrid-0123abcd-3-1",
        training_job_arn="arn:aws:sagemaker:eu-west-1:123456789012:training-job/traingrid-0123abcd-3-1",
        reason=reason,
    )
    facts: Any = {"state": "Submitted", "manifest": "s3://b/manifests/y.csv", "jobs": 4, "claimed_at": OPENED, **head}
    item = SubmissionItem(submission=SUBMISSION, **facts)
    cancel = Cancel(submission=SUBMISSION, scope="all", at=OPENED, by="Ada", reason="too\nslow")
    submission = group_by_submission([item, job, cancel])[SUBMISSION]
    event = Event(head=item, submission=submission, kind="first_failure", occurrence=0, spent=12.345)
    return message("traingrid", "us-east-1", event)


def test_an_email_has_the_facts_the_commands_and_the_console() -> None:
    assert (
        a_message("AlgorithmError: exit code 1", budget_dollars=100.0).email()
        == """\
traingrid traingrid: submission 0123abcd (y.csv) has its first failed job.

Jobs: 4, of which 1 failed, 3 running or waiting
Manifest: s3://b/manifests/y.csv
Cost: $12.35 of a budget of $100.00, without transfer and orchestration
Cancel: Cancelled by Ada: too\\nslow
First failure: job 3 (cats) in eu-west-1: AlgorithmError: exit code 1

To investigate:
    traingrid status 0123abcd
    traingrid describe 0123abcd 3
    traingrid logs 0123abcd 3

AWS console:
    https://eu-west-1.console.aws.amazon.com/sagemaker/home?region=eu-west-1#/jobs/traingrid-0123abcd-3-1
"""
    )


BATCH_JOB = "8c1fd1c0-0000-4000-8000-0123456789ab"
PLACE = {"field": "region", "value": "'us-est-1'"}
LINES = [LineError(line=line, **PLACE, reason="there is no such Region", next_step="Give one.") for line in (2, 3)]
FIRST = "Reason: Line 2, region 'us-est-1': there is no such Region. Give one."
NO_CHILD = UsageError("s3://b/y.csv has 1 line, but this Batch job is an array of 2.", "Submit it as a single job.")
REJECTED = "y.csv was rejected, and nothing of it trains"
NOT_READ = "y.csv was not read, and nothing of it trains"
REFUSED = "a Batch job with y.csv was refused, and trains nothing"
AGAIN = "The intake tries three times within four minutes. Its event is then in the intake's dead-letter queue"
AGAIN += ' (docs/reconciler.md, "Dead letters").'
REJECTIONS: list[tuple[str, tuple[Exception, str, str, list[str]]]] = [
    ("one error", (ManifestError(LINES[:1]), "", REJECTED, [FIRST])),
    ("errors", (ManifestError(LINES), "", REJECTED, ["Errors: 2, all in s3://b/manifests/y.csv.report.json", FIRST])),
    ("unreadable", (OSError("Denied"), "", NOT_READ, [f"Reason: AWS request failed: Denied. {AGAIN}"])),
    ("Batch", (ManifestError(LINES), BATCH_JOB, REFUSED, ["Errors: 2, all in the log of its first child", FIRST])),
    ("another size", (NO_CHILD, BATCH_JOB, REFUSED, [f"Reason: {NO_CHILD}"])),
]


@each_row("row", REJECTIONS)
def test_the_email_about_a_rejection_has_its_place_reason_and_next_step(
    row: tuple[Exception, str, str, list[str]],
) -> None:
    error, batch_job, event, reasons = row
    page = "s3/buckets/b?region=us-east-1&prefix=manifests/"
    if batch_job:
        page = f"batch/home?region=us-east-1#jobs/detail/{batch_job}"
    recorded = rejection(S3Uri("b", "manifests/y.csv"), "1", error, at=OPENED, batch_job=batch_job)
    facts = ["Manifest: s3://b/manifests/y.csv", *([f"Batch job: {batch_job}"] if batch_job else [])]
    assert rejection_message("g", "us-east-1", recorded).email().splitlines() == [
        *(f"traingrid g: {event}.", "", *facts, f"Time: {OPENED}", *reasons, ""),
        *(
            "To investigate:",
            "    traingrid status",
            "",
            "AWS console:",
            f"    https://us-east-1.console.aws.amazon.com/{page}",
        ),
    ]


def test_an_event_has_the_schema_of_custom_notifications() -> None:
    event = a_message("AlgorithmError: exit code 1").event()
    assert (event["version"], event["source"], event["content"]["textType"]) == ("1.0", "custom", "client-markdown")
    assert event.keys() <= {"version", "source", "id", *FIELDS}
    for part, fields in FIELDS.items():
        assert {name: type(value) for name, value in event[part].items() if fields.get(name) is not type(value)} == {}
    assert event["id"] == "traingrid-0123abcd-first_failure-0"
    assert event["metadata"]["threadId"] == "traingrid-0123abcd"
    assert event["content"]["nextSteps"][1] == "`traingrid describe 0123abcd 3`"
    assert a_message().console in event["content"]["description"]


@pytest.mark.parametrize("text", ["<!channel>", "<https://example.com|click>", "` *bold*", "a & b"])
def test_data_cannot_format_a_chat_message_or_mention_a_person(text: str) -> None:
    event = a_message(f"AlgorithmError: {text}", name=text).event()
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
    (line,) = [line for line in event["content"]["description"].splitlines() if line.startswith("*First failure*")]
    assert line == f"*First failure*: `job 3 ({escaped}) in eu-west-1: AlgorithmError: {escaped}`"


def test_control_characters_are_escaped_and_long_reasons_shortened() -> None:
    made = a_message("\x1b[2J\r\n" + "a" * 5000, name="\x07" * 3000)
    text = made.email() + json.dumps(made.event())
    assert not set(text) & {"\x1b", "\r", "\x07"}
    assert "\\x1b[2J | aaa" in made.email()
    assert len(text) < 5000
