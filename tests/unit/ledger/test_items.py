"""Ledger items: stored items of this version, of older versions and of newer ones are read as frozen values."""

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from tests.support.ledger_items import existing, job_key
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.errors import ItemError
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.grid_items import Pause
from traingrid.ledger.items import JobItem, attempts, regions_of, removed_regions
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array, SubmissionItem
from traingrid.ledger.user_requests import Cancel

OPENED = "2026-11-20T10:00:00Z"
# The first version wrote these fields when a child opened a job, and when the intake claimed a submission.
OLDEST_JOB: dict[str, Any] = {
    "submission": "0123abcd",
    "item": "job#00007",
    "state": "Pending",
    "attempt": 1,
    "region": "us-east-1",
    "name": "cats",
    "line": 9,
    "ranks": 16,
    "opened_at": OPENED,
}
OLDEST_SUBMISSION: dict[str, Any] = {
    "submission": "0123abcd",
    "item": "submission",
    "state": "Submitting",
    "owner": "request-1",
    "manifest": "s3://bucket/manifests/cats.csv",
    "version": "v1",
    "jobs": 12,
    "claimed_at": OPENED,
}
CANCEL = {"submission": "0123abcd", "item": "cancel#job#00007", "at": OPENED}
PAUSE = {"submission": "grid", "item": "launching", "allowed": False, "at": OPENED}


def test_a_job_of_the_oldest_version_gets_the_defaults_of_later_fields() -> None:
    item = JobItem.from_item(OLDEST_JOB)
    assert (item.submission, item.index, item.attempt, item.state) == ("0123abcd", 7, 1, JobState.PENDING)
    assert (item.name, item.line, item.ranks) == ("cats", 9, 16)
    assert item.regions == ("us-east-1",), "it has no replicas"
    assert (item.updated_at, item.changed_at) == ("", 1795168800)
    assert item.is_of_array("jobs")
    assert item.is_of_array("retry-1"), "the children of any array may launch it"
    assert not item.was_seen
    assert (item.progress, item.metrics, item.tried, item.failures_since_retry) == ({}, {}, (), [])
    texts = ("array_file", "batch_child", "phase", "training_job", "training_job_arn", "service_job", "fingerprint")
    assert {getattr(item, name) for name in (*texts, "failure", "reason", "artifact")} == {""}
    assert (item.training_seconds, item.billable_seconds) == (0, 0)


def test_a_submission_of_the_oldest_version_gets_the_defaults_of_later_fields() -> None:
    claimed = SubmissionItem.from_item(OLDEST_SUBMISSION)
    assert (claimed.is_submitted, claimed.arrays, claimed.batch_job) == (False, (), "")
    assert (claimed.claim_ends_at, claimed.failed_tries, claimed.sha256, claimed.changed_at) == (0, 0, "", 1795168800)
    later = {"state": "Submitted", "batch_job": "array", "submitted_at": "2026-11-20T10:00:07Z"}
    submitted = SubmissionItem.from_item(OLDEST_SUBMISSION | later)
    assert submitted.arrays == (Array(batch_job="array", file="jobs.jsonl", count=12),), "it submitted a single array"
    assert (submitted.is_submitted, submitted.changed_at) == (True, 1795168807)


@pytest.mark.parametrize(
    ("read", "stored", "optional"),
    [
        (JobItem.from_item, OLDEST_JOB, {"line", "ranks"}),
        (SubmissionItem.from_item, OLDEST_SUBMISSION, {"item", "owner", "version"}),
        (Cancel.from_item, CANCEL, set()),
        (Pause.from_item, PAUSE, {"submission", "item"}),
    ],
)
def test_an_item_without_a_required_field_is_an_error_that_names_item_and_field(
    read: Callable[[Mapping[str, Any]], Any], stored: dict[str, Any], optional: set[str]
) -> None:
    for field in stored.keys() - optional:
        with pytest.raises(ItemError) as raised:
            read({name: value for name, value in stored.items() if name != field})
        assert f"has no field '{field}'" in raised.value.what
        assert all(repr(stored[name]) in raised.value.what for name in {"submission", "item"} - {field})
        assert raised.value.next_step


@pytest.mark.parametrize("field", ["attempt", "region", "state"])
def test_an_earlier_attempt_without_a_required_field_is_an_error(field: str) -> None:
    tried = {"attempt": 1, "region": "us-east-1", "state": "Failed"}
    del tried[field]
    with pytest.raises(ItemError, match=rf"item 'job#00007'\) has no field 'tried\[\]\.{field}'"):
        JobItem.from_item(OLDEST_JOB | {"attempt": 2, "tried": [tried]})


@pytest.mark.parametrize("field", ["batch_job", "file", "count"])
def test_an_array_without_a_required_field_is_an_error(field: str) -> None:
    array: dict[str, Any] = {"batch_job": "array", "file": "jobs.jsonl", "count": 12}
    del array[field]
    with pytest.raises(ItemError, match=rf"item 'submission'\) has no field 'arrays\[\]\.{field}'"):
        SubmissionItem.from_item(OLDEST_SUBMISSION | {"arrays": [array]})


def test_fields_and_states_of_a_newer_version_are_accepted() -> None:
    item = JobItem.from_item(OLDEST_JOB | {"state": "Hibernating", "colour": "red"})
    assert (item.state, f"{item.state}") == ("Hibernating", "Hibernating")
    assert item.was_seen, "an unknown state is SageMaker's"
    submission = SubmissionItem.from_item(OLDEST_SUBMISSION | {"colour": "red"})
    assert submission.jobs == 12
    assert Cancel.from_item(CANCEL | {"colour": "red"}) == Cancel(submission="0123abcd", scope="job#00007", at=OPENED)


def test_items_of_an_unknown_kind_are_not_yielded(ledger: Ledger) -> None:
    ledger._table.put(OLDEST_SUBMISSION)
    ledger._table.put({"submission": "0123abcd", "item": "budget#1", "dollars": 7})
    ledger.claim_retry("0123abcd", {"by": "Ada"})
    ledger.set_launching({"by": "Ada", "reason": ""}, allowed=False)
    assert list(ledger.everything()) == [SubmissionItem.from_item(OLDEST_SUBMISSION)]


def test_a_resumed_grid_has_no_pause() -> None:
    assert Pause.from_item(PAUSE) == Pause(at=OPENED)
    assert Pause.from_item(PAUSE | {"allowed": True}) is None


def test_items_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        JobItem.from_item(OLDEST_JOB).state = JobState.FAILED  # type: ignore[misc]  # the tested error


def test_every_field_of_a_job_that_a_child_and_events_record_is_read(ledger: Ledger, job: Job) -> None:
    """A field that `from_item` forgets would have its default for ever."""
    job = job.model_copy(update={"budget_dollars": 9.0, "dollars_per_hour": 2.0})
    opened = ledger.open_job("0123abcd", job, ["us-east-1", "eu-west-1"], "jobs")
    failed: AttemptFacts = {"region": "us-east-1", "state": JobState.FAILED, "failure": "capacity"}
    failed["billable_seconds"] = 3
    failed["checkpoint_dollars"] = 0.5
    assert ledger.next_attempt(opened.key, failed, "eu-west-1", on_demand=True)
    texts = (
        "batch_child",
        "training_job",
        "training_job_arn",
        "service_job",
        "fingerprint",
        "failure",
        "reason",
        "stopped_for",
        "next_region",
    )
    recorded: Any = {name: f"the {name}" for name in (*texts, "phase", "artifact")}
    recorded |= {"state": JobState.FAILED, "metrics": {"loss": 0.5}, "training_seconds": 7, "billable_seconds": 8}
    recorded |= {"training_started_at": 1795000000, "phase_at": 1795000001, "epochs": 20, "residency": ("us",)}
    recorded |= {"checkpoint_from": "us-east-1", "checkpoint_bytes": 9, "checkpoint_dollars": 0.25}
    recorded |= {"checkpoint_note": "Continues.", "has_no_model": True}
    assert ledger.record_job(job_key(attempt=2), recorded, opens="a request")
    assert ledger.record_progress(job_key(attempt=2), {"epoch": 3}, 12.5)
    item = existing(ledger.job("0123abcd", 0))
    assert {name: getattr(item, name) for name in recorded} == recorded
    assert (item.progress, item.epoch_seconds, item.array_file, item.regions) == (
        {"epoch": 3},
        12.5,
        "jobs",
        ("us-east-1", "eu-west-1"),
    )
    assert item.open_requests == {"a request"}
    assert (item.opened_at, item.updated_at > "", item.line, item.ranks) == (item.opened_at, True, job.line, job.ranks)
    defaults = {field.name for field in fields(JobItem) if getattr(item, field.name) in ("", 0, {}, (), None)}
    assert defaults == {"index"}, "each field has a value, and the index is 0"
    assert [(one.attempt, one.failure, one.billable_seconds, one.checkpoint_dollars) for one in item.tried] == [
        (1, "capacity", 3, 0.5)
    ]


def test_only_stored_fields_are_listed() -> None:
    item = JobItem.from_item(OLDEST_JOB | {"failure": ""})
    assert item.fields(("state", "failure", "reason")) == {"state": JobState.PENDING, "failure": ""}


def test_the_failures_before_a_users_retry_do_not_count() -> None:
    previous = {"attempt": 1, "region": "us-east-1", "state": "Failed", "failure": "capacity"}
    tried = [previous, previous | {"reopened": "retry-1"}, previous | {"failure": "spot_interruption"}]
    assert JobItem.from_item(OLDEST_JOB | {"tried": tried[:1]}).failures_since_retry == ["capacity"]
    assert JobItem.from_item(OLDEST_JOB | {"tried": tried[:2]}).failures_since_retry == []
    assert JobItem.from_item(OLDEST_JOB | {"tried": tried}).failures_since_retry == ["spot_interruption"]


def test_attempts_and_regions_include_the_current_and_the_earlier_ones() -> None:
    tried = [{"attempt": 1, "region": "eu-west-1", "state": "Failed", "failure": "capacity", "artifact": "s3://a"}]
    item = JobItem.from_item(OLDEST_JOB | {"attempt": 2, "tried": tried, "billable_seconds": 0})
    first, second = item.attempts()[1], item.attempts()[2]
    assert (first.region, first.failure, first.artifact, first.billable_seconds) == (
        "eu-west-1",
        "capacity",
        "s3://a",
        None,
    )
    assert (second.region, second.artifact, second.billable_seconds) == ("us-east-1", None, 0)
    assert attempts(None) == {}
    assert regions_of([item]) == {"us-east-1", "eu-west-1"}
    assert removed_regions([item], ["eu-west-1"]) == ["us-east-1"]
