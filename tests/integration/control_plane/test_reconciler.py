"""Reconciler with a running Batch and SageMaker: it closes abandoned lines and stops orphaned training jobs."""

from tests.integration.control_plane.account import HOME, OTHER, WAITS, Account
from tests.integration.localcloud.compute import wait_until
from tests.support.ledger_items import existing, job_key
from traingrid.audit.audit import audit, notes
from traingrid.aws.clients import client
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.record_outcome import record_seen
from traingrid.submission.cancel import Canceller, CancelTarget

DIES = "raise SystemExit('no')"


def test_a_training_job_with_a_dead_child_and_a_lost_event_is_recorded(account: Account) -> None:
    submission = account.submit((HOME,), DIES)
    name = account.train(submission, 0, seconds=0)
    account.ended(name)
    wait_until(lambda: account.child(submission, 0) == "FAILED")
    assert name in account.reconciler().run_pass().recorded
    line = account.line(submission, 0)
    assert (line.state, line.training_job) == ("Completed", name)
    assert line.artifact.endswith("model.tar.gz")
    assert audit(account.world(submission, at_rest=True)) == []


def test_a_line_whose_child_died_before_creating_a_job_is_closed_after_the_grace(
    account: Account,
) -> None:
    submission = account.submit((HOME, OTHER), DIES)
    wait_until(lambda: {account.child(submission, index) for index in (0, 1)} == {"FAILED"})
    assert account.reconciler(grace_seconds=60).run_pass().closed == []
    closed = account.reconciler().run_pass().closed
    assert sorted(closed) == [f"traingrid-{submission}-0-1", f"traingrid-{submission}-1-1"]
    assert account.line(submission, 0).state == "Failed"
    assert "is FAILED" in account.line(submission, 0).reason
    assert account.reconciler().run_pass().closed == [], "an ended line never changes"
    assert audit(account.world(submission, at_rest=True)) == []


def test_a_line_without_ledger_item_is_created_as_failed(account: Account) -> None:
    submission = account.submit((HOME, OTHER), DIES, opened=False)
    wait_until(lambda: {account.child(submission, index) for index in (0, 1)} == {"FAILED"})
    account.reconciler().run_pass()
    assert [account.line(submission, index).state for index in (0, 1)] == ["Failed", "Failed"]
    assert account.line(submission, 1).region == OTHER


def test_the_training_job_of_an_open_line_continues_with_or_without_its_child(account: Account) -> None:
    submission = account.submit((HOME, OTHER))
    name = account.train(submission, 0)
    other = account.train(submission, 1, region=OTHER)
    array = account.ledger.submission(submission)
    assert array is not None
    account.batch.terminate_job(jobId=f"{array.batch_job}:1", reason="host lost")
    wait_until(lambda: account.child(submission, 1) == "FAILED")
    done = account.reconciler().run_pass()
    assert not {name, other} & {*done.stopped, *done.closed}
    assert account.line(submission, 1).state == "InProgress", "the child died before it recorded this"
    assert audit(account.world(submission)) == []


def test_an_orphan_is_stopped_and_a_foreign_training_job_is_not(account: Account) -> None:
    orphan = account.train("ffffffff", 0)
    strangers = account.train("ffffffff", 1, ours=False)
    assert account.reconciler(grace_seconds=60).run_pass().stopped == [], "its line may not be visible yet"
    assert account.reconciler().run_pass().stopped == [orphan]
    assert account.ended(orphan) == "Stopped"
    assert account.described(strangers)["TrainingJobStatus"] == "InProgress"


def test_a_training_job_of_a_previous_attempt_is_stopped_in_its_region(account: Account) -> None:
    submission = account.submit((HOME,))
    previous = account.train(submission, 0)
    tried: AttemptFacts = {"region": HOME, "state": JobState.FAILED, "failure": "capacity"}
    account.ledger.next_attempt(job_key(submission=submission), tried, OTHER)
    current = account.train(submission, 0, attempt=2, region=OTHER)
    done = account.reconciler().run_pass()
    assert done.stopped == [previous]
    assert account.described(current, OTHER)["TrainingJobStatus"] == "InProgress"


def test_cancelled_jobs_are_stopped_if_the_cancel_command_died_after_recording(account: Account) -> None:
    submission = account.submit((HOME, OTHER))
    names = account.train(submission, 0), account.train(submission, 1, region=OTHER)
    account.ledger.request_cancel(submission, "region#eu-west-1", {"by": "Ada", "reason": ""})
    assert account.reconciler(grace_seconds=60).run_pass().stopped == [names[1]], "a cancel takes effect without grace"
    assert account.ended(names[1], OTHER) == "Stopped"
    assert account.described(names[0])["TrainingJobStatus"] == "InProgress"


def test_a_line_that_waits_with_its_child_is_left_unchanged(account: Account) -> None:
    submission = account.submit((HOME,), WAITS)
    done = account.reconciler().run_pass()
    assert account.line(submission, 0).state == "Pending"
    assert not [name for name in (*done.recorded, *done.closed, *done.stopped) if submission in name]


def test_an_array_that_the_intake_did_not_record_is_recorded(account: Account) -> None:
    submission = account.submit((HOME, OTHER), DIES, opened=False, recorded=False)
    wait_until(lambda: account.batch.list_jobs(jobQueue="traingrid", jobStatus="FAILED")["jobSummaryList"])
    assert account.reconciler(grace_seconds=60).run_pass().recorded == [], "the intake may still be running"
    assert submission in account.reconciler().run_pass().recorded
    head = account.ledger.submission(submission)
    assert head is not None
    assert (head.state, [array.count for array in head.arrays]) == ("Submitted", [2])
    wait_until(lambda: {account.child(submission, index) for index in (0, 1)} == {"FAILED"})
    account.reconciler().run_pass()
    assert [account.line(submission, index).state for index in (0, 1)] == ["Failed", "Failed"]


def test_a_submission_without_batch_job_is_left_to_its_dead_letter(account: Account) -> None:
    account.ledger.claim_submission("dddddddd", "test", {"manifest": "s3://x/y", "version": "1", "jobs": 2})
    account.reconciler().run_pass()
    head = account.ledger.submission("dddddddd")
    assert head is not None
    assert head.state == "Submitting"
    assert [str(violation)[:8] for violation in audit(account.world("dddddddd", at_rest=True))] == ["I1 lost:"]


def test_a_foreign_training_job_with_a_lines_name_is_not_its_outcome(account: Account) -> None:
    submission = account.submit((HOME, HOME))
    account.ledger.record_job(job_key(submission=submission), {"fingerprint": "what the child has asked for"})
    for index, claim in ((0, "claimed"), (1, "not yet claimed")):
        name = account.train(submission, index, seconds=0, ours=False)
        account.ended(name)
        service = SageMaker(account.deployment, HOME)
        assert not record_seen("traingrid", account.ledger, service, name), claim
        assert account.line(submission, index).state == "Pending"
    array = existing(account.ledger.submission(submission)).batch_job
    account.batch.terminate_job(jobId=array, reason="lost")
    wait_until(lambda: {account.child(submission, index) for index in (0, 1)} == {"FAILED"})
    account.reconciler().run_pass()
    for index in (0, 1):
        line = account.line(submission, index)
        assert (line.state, line.failure) == ("Failed", "conflict")
    assert audit(account.world(submission, at_rest=True)) == []


def test_our_training_job_with_a_different_request_is_stopped_and_recorded(
    account: Account,
) -> None:
    submission = account.submit((HOME,), DIES)
    name = account.train(submission, 0)
    theirs = account.line(submission, 0).fingerprint
    account.ledger.record_job(job_key(submission=submission), {"fingerprint": "what the child has asked for"})
    wait_until(lambda: account.child(submission, 0) == "FAILED")
    assert name in account.reconciler().run_pass().closed
    line = account.line(submission, 0)
    assert (line.state, line.failure) == ("Failed", "other_request")
    assert theirs in line.reason
    assert "this job's is what the child has asked for" in line.reason
    assert [str(violation)[:10] for violation in audit(account.world(submission))] == ["I3 orphan:"]
    assert account.reconciler().run_pass().stopped == [name]
    assert account.ended(name) == "Stopped"
    assert audit(account.world(submission, at_rest=True)) == []


def test_a_foreign_training_job_is_never_stopped_by_a_cancel(account: Account) -> None:
    submission = account.submit((HOME,))
    strangers = account.train(submission, 0, ours=False)
    canceller = Canceller(
        deployment=account.deployment, ledger=account.ledger, children=account.children, storage=account.storage
    )
    assert canceller.cancel(CancelTarget(submission=submission, by="Ada")).training_jobs == []
    assert strangers not in account.reconciler(grace_seconds=60).run_pass().stopped
    wait_until(lambda: account.child(submission, 0) == "FAILED")
    for _ in range(2):
        assert strangers not in account.reconciler().run_pass().stopped
    assert account.line(submission, 0).state in ("Failed", "Stopped")
    assert account.described(strangers)["TrainingJobStatus"] == "InProgress"
    assert audit(account.world(submission, at_rest=True)) == []


def test_a_line_whose_training_job_was_deleted_early_is_closed_with_that_reason(
    account: Account,
) -> None:
    submission = account.submit((HOME, HOME), DIES)
    seen, recorded = (account.train(submission, index, seconds=0) for index in (0, 1))
    account.ledger.record_job(job_key(submission=submission), {"state": JobState.IN_PROGRESS, "training_job": seen})
    for name in (seen, recorded):
        account.ended(name)
    assert record_seen("traingrid", account.ledger, SageMaker(account.deployment, HOME), recorded)
    for name in (seen, recorded):
        client("sagemaker", HOME).delete_training_job(TrainingJobName=name)
    wait_until(lambda: account.child(submission, 0) == "FAILED")
    assert seen in account.reconciler().run_pass().closed
    line = account.line(submission, 0)
    assert (line.state, line.failure) == ("Failed", "deleted")
    assert f"The training job {seen} no longer exists" in line.reason
    world = account.world(submission, at_rest=True)
    assert audit(world) == []
    assert recorded in notes(world)[0]
