"""Ledger: it changes only by conditional writes."""

from dataclasses import replace

import pytest

from tests.support.ledger_items import existing, job_key
from tests.support.sample_deployment import SAMPLE
from traingrid.grid.deployment import Deployment
from traingrid.job.candidates import Candidate
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.late_request import CREATES_END_SECONDS
from traingrid.ledger.facts import AttemptFacts, Claim
from traingrid.ledger.items import JobItem, RecordedAttempt
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.preconditions import Precondition
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import CANCEL_ALL, cancel_of_job, cancel_of_region, is_cancelled
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

FAILED: AttemptFacts = {"region": "us-east-1", "state": JobState.FAILED}


@pytest.fixture
def job(deployment: Deployment) -> Job:
    return jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")[2]


def test_a_submission_is_claimed_by_one_of_many(ledger: Ledger) -> None:
    answers = [ledger.claim_submission("0123abcd", f"owner-{n}", {"jobs": 4, "manifest": "x"}) for n in range(3)]
    assert answers[0] is None
    assert [answer.owner for answer in answers[1:] if answer] == ["owner-0", "owner-0"]


def test_only_the_claim_that_was_read_can_be_replaced(ledger: Ledger) -> None:
    first, second, third = (Claim(owner=owner, ends_at=60) for owner in "abc")
    ledger.claim_submission("0123abcd", "a", {"jobs": 4, "manifest": "s3://bucket/x.csv", "claim_ends_at": 60})
    previous = ledger.submission("0123abcd")
    assert previous is not None
    assert not ledger.take_over_submission(replace(previous, owner="b"), third)
    assert ledger.take_over_submission(previous, second)
    assert not ledger.take_over_submission(previous, third)
    assert ledger.take_over_submission(previous, second), "its first reply may have been lost"
    ledger.release_submission("0123abcd", first)
    assert existing(ledger.submission("0123abcd")).claim_ends_at == 60
    ledger.release_submission("0123abcd", second)
    assert existing(ledger.submission("0123abcd")).claim_ends_at == 0


def test_opening_a_job_twice_keeps_its_facts(ledger: Ledger, job: Job) -> None:
    assert ledger.open_job("0123abcd", job).state == "Pending"
    ledger.record_job(job_key(job.index), {"state": JobState.IN_PROGRESS})
    assert ledger.open_job("0123abcd", job).state == "InProgress"


def test_an_attempt_has_the_backend_that_it_was_opened_for(ledger: Ledger, job: Job) -> None:
    opened = ledger.open_job("0123abcd", job.model_copy(update={"backends": ("eks", "sagemaker")}))
    assert (opened.backend, opened.candidate) == ("eks", Candidate(job.region, "eks"))
    tried: AttemptFacts = {"region": job.region, "backend": "eks", "state": JobState.STOPPED}
    ledger.record_job(job_key(job.index), {"stopped_for": "capacity"})
    assert ledger.next_attempt(job_key(job.index), tried, job.region)
    assert ledger.next_attempt(job_key(job.index, 2), {**tried, "backend": "sagemaker"}, job.region, backend="eks")
    item = existing(ledger.job("0123abcd", job.index))
    assert [previous.backend for previous in item.attempts().values()] == ["eks", "sagemaker", "eks"]
    assert item.tried_since_retry == [Candidate(job.region, "eks"), Candidate(job.region, "sagemaker")]
    assert item.stopped_for == ""


def test_a_job_on_sagemaker_is_stored_as_by_versions_without_backends(ledger: Ledger, job: Job) -> None:
    assert "backend" not in ledger.open_job("0123abcd", job).stored
    assert ledger.next_attempt(job_key(job.index), {"region": job.region, "state": JobState.FAILED}, job.region)
    assert "backend" not in existing(ledger.job("0123abcd", job.index)).stored


@pytest.mark.parametrize("final", [JobState.COMPLETED, JobState.FAILED, JobState.STOPPED])
def test_a_job_that_has_ended_never_changes(ledger: Ledger, job: Job, final: JobState) -> None:
    ledger.open_job("0123abcd", job)
    assert ledger.record_job(job_key(job.index), {"state": final, "metrics": {"top1": 0.75, "epoch": 3}})
    assert not ledger.record_job(job_key(job.index), {"state": JobState.IN_PROGRESS})
    item = ledger.job("0123abcd", job.index)
    assert item is not None
    assert (item.state, item.metrics) == (final, {"top1": 0.75, "epoch": 3})


def test_facts_of_another_attempt_change_nothing(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    assert not ledger.record_job(job_key(job.index, 2), {"state": JobState.COMPLETED})


def test_facts_of_an_unopened_job_change_nothing(ledger: Ledger) -> None:
    assert not ledger.record_job(job_key(7), {"state": JobState.COMPLETED})
    assert ledger.job("0123abcd", 7) is None


def test_items_of_a_submission_come_in_the_order_of_the_manifest(ledger: Ledger, job: Job) -> None:
    ledger.claim_submission("0123abcd", "a", {"jobs": 4, "manifest": "s3://bucket/x.csv"})
    for index in (10, 2, 9_999):
        ledger.open_job("0123abcd", job.model_copy(update={"index": index}))
    *jobs, submission = ledger.items("0123abcd")
    assert [item.index for item in jobs if isinstance(item, JobItem)] == [2, 10, 9_999]
    assert submission == ledger.submission("0123abcd")


def test_a_job_moves_to_its_next_attempt_once_and_keeps_the_last_result(ledger: Ledger, job: Job) -> None:
    opened = ledger.open_job("0123abcd", job, ["eu-west-1", "us-east-1"])
    assert opened.regions == ("eu-west-1", "us-east-1")
    ledger.record_job(
        job_key(job.index), {"state": JobState.IN_PROGRESS, "training_job": "x", "progress": {"epoch": 1}}
    )
    tried: AttemptFacts = {
        "region": "eu-west-1",
        "state": JobState.FAILED,
        "failure": "capacity",
        "reason": "CapacityError: none",
    }
    answers = [ledger.next_attempt(job_key(job.index), tried, "us-east-1") for _ in range(2)]
    assert answers == [True, False]
    item = ledger.job("0123abcd", job.index)
    assert item is not None
    assert (item.attempt, item.state, item.region) == (2, "Pending", "us-east-1")
    (previous,) = item.tried
    assert replace(previous, ended_at="") == RecordedAttempt(attempt=1, **tried)
    assert item.opened_at >= previous.ended_at >= opened.opened_at
    assert not {"training_job", "progress"} & item.stored
    assert not ledger.record_job(job_key(job.index), {"state": JobState.COMPLETED})


@pytest.mark.parametrize("final", [JobState.COMPLETED, JobState.FAILED, JobState.STOPPED])
def test_an_ended_job_is_retried_only_by_a_user_and_if_not_completed(ledger: Ledger, job: Job, final: JobState) -> None:
    ledger.open_job("0123abcd", job)
    tried: AttemptFacts = {"region": job.region, "state": final}
    assert not ledger.next_attempt(job_key(job.index), tried, job.region, reopen="again")
    ledger.record_job(job_key(job.index), {"state": final})
    assert not ledger.next_attempt(job_key(job.index), tried, job.region)
    assert ledger.next_attempt(job_key(job.index), tried, job.region, reopen="again") == (final != JobState.COMPLETED)


def test_a_retry_with_a_lost_reply_is_recognised_by_its_own_write(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(job.index), {"state": JobState.FAILED})
    tried: AttemptFacts = {"region": job.region, "state": JobState.FAILED}
    for _ in range(2):
        assert ledger.next_attempt(job_key(job.index), tried, job.region, reopen="mine")
    assert not ledger.next_attempt(job_key(job.index), tried, job.region, reopen="another's")
    assert existing(ledger.job("0123abcd", job.index)).attempt == 2


def test_an_attempt_is_claimed_by_the_children_of_its_own_array_only(ledger: Ledger, job: Job) -> None:
    def claimed(attempt: int, array_file: str) -> bool:
        return ledger.record_job(
            job_key(job.index, attempt), {"batch_child": "one"}, Precondition(array_file=array_file)
        )

    ledger.open_job("0123abcd", job, array_file="jobs")
    assert [claimed(1, file) for file in ("jobs", "retry-1", "jobs")] == [True, False, True]
    capacity: AttemptFacts = {"region": job.region, "state": JobState.FAILED, "failure": "capacity"}
    ledger.next_attempt(job_key(job.index), capacity, job.region)
    assert [claimed(2, file) for file in ("jobs", "retry-1")] == [True, False], (
        "an attempt that a child starts belongs to the same array"
    )
    ledger.record_job(job_key(job.index, 2), {"state": JobState.FAILED})
    failed: AttemptFacts = {"region": job.region, "state": JobState.FAILED}
    ledger.next_attempt(job_key(job.index, 2), failed, job.region, reopen="again", array_file="retry-1")
    assert [claimed(3, file) for file in ("jobs", "retry-1", "retry-2")] == [False, True, False]


def test_a_job_of_an_older_version_belongs_to_every_array(ledger: Ledger, job: Job) -> None:
    item = ledger.open_job("0123abcd", job)
    assert ledger.record_job(job_key(job.index), {"state": JobState.IN_PROGRESS}, Precondition(array_file="jobs"))
    assert item.is_of_array("jobs")
    retried = replace(item, array_file="retry-1")
    assert retried.is_of_array("")
    assert not retried.is_of_array("jobs")


def test_a_watched_job_is_left_to_its_child(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    assert ledger.record_job(job_key(job.index), {"phase": "x"}, Precondition(unless_watched=True))
    ledger.record_job(job_key(job.index), {"batch_child": "array:2"})
    assert not ledger.record_job(job_key(job.index), {"state": JobState.FAILED}, Precondition(unless_watched=True))
    ledger.record_job(job_key(job.index), {"batch_child": ""})
    assert ledger.record_job(job_key(job.index), {"state": JobState.FAILED}, Precondition(unless_watched=True))


def test_progress_that_comes_after_the_end_is_kept_and_changes_no_state(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(job.index), {"state": JobState.COMPLETED})
    assert ledger.record_progress(job_key(job.index), {"epoch": 3.0})
    assert not ledger.record_progress(job_key(job.index, 2), {"epoch": 4.0})
    item = ledger.job("0123abcd", job.index)
    assert item is not None
    assert (item.state, item.progress) == ("Completed", {"epoch": 3})


def test_a_cancel_is_kept_and_applies_to_its_scope(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    assert ledger.cancels("0123abcd") == {}
    for scope in (cancel_of_region("eu-west-1"), cancel_of_job(7), cancel_of_job(7)):
        ledger.request_cancel("0123abcd", scope, {"by": "arn:me", "reason": "wrong data"})
    cancels = ledger.cancels("0123abcd")
    assert set(cancels) == {"region#eu-west-1", "job#00007"}
    assert cancels["job#00007"].reason == "wrong data"
    assert is_cancelled(cancels, 0, "eu-west-1")
    assert is_cancelled(cancels, 7, "us-east-1")
    assert not is_cancelled(cancels, 0, "us-east-1")
    ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "arn:me"})
    assert is_cancelled(ledger.cancels("0123abcd"), 0, "us-east-1")
    assert list(ledger.items("0123abcd")) == [ledger.job("0123abcd", 2)]


def test_open_requests_outlive_the_end_of_their_attempt_and_not_the_next_attempt(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    for request in ("first", "second"):
        assert ledger.record_job(job_key(job.index), {"phase": "Creating"}, opens=request)
    assert ledger.record_job(job_key(job.index), {"state": JobState.FAILED}, closes="second")
    assert not ledger.record_job(job_key(job.index), {"phase": "Creating"}, opens="third")
    item = existing(ledger.job("0123abcd", job.index))
    assert item.open_requests == {"first"}
    assert item.creates_end_at == epoch_seconds(item.requested_at) + CREATES_END_SECONDS
    ledger.close_request(job_key(job.index), "first")
    assert existing(ledger.job("0123abcd", job.index)).creates_end_at == 0
    assert existing(ledger.job("0123abcd", job.index)).updated_at == item.updated_at, "it is no change of the job"
    assert ledger.next_attempt(job_key(job.index), FAILED, job.region, reopen="again")
    assert existing(ledger.job("0123abcd", job.index)).requested_at == ""


def test_a_name_that_sagemaker_has_seen_cannot_be_created_again(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(job.index), {"phase": "Creating"}, opens="first")
    ledger.record_job(job_key(job.index), {"state": JobState.FAILED, "training_job_arn": "arn:x"})
    assert existing(ledger.job("0123abcd", job.index)).creates_end_at == 0
