"""Audit: reports nothing for a consistent grid, and finds and classifies each violation."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.snapshots import NOON, ROLES, SUBMISSION, a_cancel, a_job, a_line, a_world
from traingrid.audit.audit import audit, counts, notes
from traingrid.audit.snapshot import World
from traingrid.backends.inventory import Details
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem


def found(world: World) -> list[tuple[str, str]]:
    return [(violation.invariant, violation.kind) for violation in audit(world)]


def created(index: int, attempt: int = 1, **changes: Any) -> dict[str, Any]:
    name = f"traingrid-{changes.pop('submission', SUBMISSION)}-{index}-{attempt}"
    return {
        "service": "sagemaker",
        "action": "CreateTrainingJob",
        "region": "us-east-1",
        "time": NOON,
        "parameters": {"TrainingJobName": name, **changes},
    }


def test_a_consistent_grid_has_no_violation() -> None:
    retried = a_line(1, attempt=2, region="eu-west-1", training_job=f"traingrid-{SUBMISSION}-1-2")
    retried["tried"] = [{"attempt": 1, "region": "us-east-1", "state": JobState.FAILED, "failure": "capacity"}]
    later = a_job(1, attempt=2, region="eu-west-1")
    jobs = [a_job(0), a_job(1, "Failed"), later]
    world = a_world([a_line(0), retried], jobs, calls=[created(0), created(1), created(1, 2)], at_rest=True)
    assert audit(world) == []
    assert counts([]) == {"duplicate": 0, "orphan": 0, "lost": 0, "other": 0}


def test_an_active_training_job_is_a_violation_only_at_rest() -> None:
    world = a_world([a_line(0, "InProgress"), a_line(1, "Waiting")], [a_job(0, "InProgress")])
    world = replace(world, children={(SUBMISSION, 1): "RUNNING"})
    assert found(world) == []
    assert found(replace(world, at_rest=True)) == [("I1", "lost"), ("I1", "lost")]


@pytest.mark.parametrize("child", ["SUCCEEDED", "FAILED", "UNKNOWN"])
def test_a_line_without_child_and_training_job_is_lost(child: str) -> None:
    world = a_world([a_line(0, "Pending")], [], children={(SUBMISSION, 0): child})
    assert found(world) == [("I1", "lost")]
    just_now = a_line(0, "Pending", updated_at="2026-11-20T11:58:00Z")
    assert found(replace(world, lines={(SUBMISSION, 0): JobItem.from_item(just_now)})) == [], (
        "the reconciler has two passes"
    )


def test_a_line_that_was_never_opened_is_lost_once_its_child_is_gone() -> None:
    world = a_world([a_line(0), {}], [a_job(0)], children={(SUBMISSION, 1): "FAILED"})
    assert found(world) == [("I1", "lost")]
    assert found(replace(world, children={(SUBMISSION, 1): "RUNNABLE"})) == []


def test_a_submission_that_never_reached_batch_is_lost() -> None:
    world = a_world([{}], [])
    head = replace(world.submissions[SUBMISSION], state="Submitting")
    assert found(replace(world, submissions={SUBMISSION: head})) == [("I1", "lost")]


def test_a_changed_final_state_is_found_by_comparing_two_worlds() -> None:
    before = a_world([a_line(0, "Failed", training_job="")], [])
    after = a_world([a_line(0, "Stopped", training_job="")], [], before=before)
    assert found(after) == [("I1", "other")]
    assert found(replace(before, before=before)) == []
    retried = a_line(0, attempt=2, tried=[{"attempt": 1, "region": "us-east-1", "state": JobState.FAILED}])
    assert found(a_world([retried], [a_job(0, attempt=2)], before=before)) == []


def test_one_attempt_in_two_regions_is_a_duplicate() -> None:
    world = a_world([a_line(0)], [a_job(0), a_job(0, region="eu-west-1")])
    assert ("I2", "duplicate") in found(world)


@pytest.mark.parametrize(
    "previous", [a_job(0, "InProgress"), a_job(0, "Failed", ended_at=NOON)], ids=["still runs", "ended later"]
)
def test_overlapping_attempts_are_a_duplicate(previous: Any) -> None:
    line = a_line(0, attempt=2, tried=[{"attempt": 1, "region": "us-east-1", "state": JobState.FAILED}])
    assert ("I2", "duplicate") in found(a_world([line], [previous, a_job(0, attempt=2)]))


def test_two_accepted_creates_are_a_duplicate_even_if_one_job_remains() -> None:
    world = a_world([a_line(0)], [a_job(0)], calls=[created(0), created(0)])
    assert found(world) == [("I2", "duplicate")]


@pytest.mark.parametrize("action", ["create jobs", "create mpijobs"])
def test_creates_of_one_name_on_two_engines_are_a_duplicate(action: str) -> None:
    name = created(0)["parameters"]["TrainingJobName"]
    of_cluster = {"service": "kubernetes", "action": action, "region": "us-east-1", "parameters": {"name": name}}
    assert found(a_world([a_line(0)], [a_job(0)], calls=[of_cluster])) == []
    assert found(a_world([a_line(0)], [a_job(0)], calls=[created(0), of_cluster])) == [("I2", "duplicate")]


def test_two_batch_jobs_of_one_name_are_a_duplicate() -> None:
    name = f"traingrid-{SUBMISSION}"
    assert found(a_world([a_line(0)], [a_job(0)], batch_jobs={name: ["a", "b"]})) == [("I2", "duplicate")]
    submitted = {"service": "batch", "action": "SubmitJob", "region": "us-east-1", "parameters": {"jobName": name}}
    assert found(a_world([a_line(0)], [a_job(0)], calls=[submitted, submitted])) == [("I2", "duplicate")]


@pytest.mark.parametrize(
    "line",
    [
        a_line(0, "Failed", training_job=""),
        a_line(0, "InProgress", attempt=2, tried=[{"attempt": 1, "region": "us-east-1", "state": JobState.FAILED}]),
        a_line(0, "InProgress", region="eu-west-1"),
    ],
    ids=["ended", "another attempt", "another Region"],
)
def test_a_running_training_job_that_its_line_does_not_own_is_an_orphan(line: dict[str, Any]) -> None:
    world = a_world([line], [a_job(0, "InProgress")], children={(SUBMISSION, 0): "RUNNING"})
    assert ("I3", "orphan") in found(world)
    stopping = replace(world, training_jobs=[a_job(0, "Stopping")])
    assert ("I3", "orphan") not in found(stopping)
    assert ("I3", "orphan") in found(replace(stopping, at_rest=True))


def test_a_job_of_an_unknown_submission_is_an_orphan_while_it_runs() -> None:
    assert found(a_world([], [a_job(0, "InProgress", submission="ffffffff")])) == [("I3", "orphan")]
    assert found(a_world([], [a_job(0, submission="ffffffff")])) == [("I3", "other")]


def test_a_training_job_without_our_tag_is_ignored() -> None:
    line = a_line(0, "Failed", failure="conflict")
    for state in ("InProgress", "Completed"):
        assert found(a_world([line], [a_job(0, state)])) == []


@pytest.mark.parametrize("failure", ["conflict", "other_request", "stopped_by_user"])
def test_a_tagged_job_without_its_line_is_an_orphan_until_it_stops(failure: str) -> None:
    line = a_line(0, "Failed", failure=failure)
    assert found(a_world([line], [a_job(0, "InProgress", ours=True)])) == [("I3", "orphan")]
    assert found(a_world([line], [a_job(0, "InProgress", ours=False)])) == []
    assert found(a_world([line | {"failure": "other_request"}], [a_job(0, "Stopped", ours=True)])) == []


@pytest.mark.parametrize(
    ("line", "job"),
    [
        (a_line(0, "Failed"), a_job(0)),
        (a_line(0), a_job(0, details=Details(state=JobState.COMPLETED, artifact="s3://b/m"))),
        (a_line(0, billable_seconds=5), a_job(0, details=Details(state=JobState.COMPLETED, billable_seconds=6))),
    ],
    ids=["state", "artifact", "billable seconds"],
)
def test_the_ledger_must_match_sagemaker(line: dict[str, Any], job: Any) -> None:
    assert found(a_world([line], [job])) == [("I4", "other")]


def test_details_do_not_have_to_match_after_pods_are_gone() -> None:
    details = Details(state=JobState.COMPLETED, artifact="s3://b/m", billable_seconds=6, is_exact=False)
    assert found(a_world([a_line(0, billable_seconds=5)], [a_job(0, details=details)])) == []


def test_a_completed_line_has_a_training_job() -> None:
    assert found(a_world([a_line(0)], [])) == [("I4", "other")]
    assert found(a_world([a_line(0, "Failed", training_job="")], [])) == [], "refused before there was one"


def test_a_deleted_job_of_a_completed_line_is_only_a_note() -> None:
    lines = [a_line(0, training_job_arn="arn:x"), a_line(1, training_job_arn="arn:y")]
    world = a_world(lines, [a_job(1)], at_rest=True)
    assert found(world) == []
    (note,) = notes(world)
    assert note == f"1 training jobs of ended lines no longer exist in SageMaker: traingrid-{SUBMISSION}-0-1"
    assert notes(a_world(lines, [a_job(0), a_job(1)])) == []


def test_objects_that_a_cluster_no_longer_has_are_not_noted() -> None:
    lines = [a_line(0, training_job_arn="arn:x", backend="eks")]
    assert notes(a_world(lines, [], at_rest=True)) == []


def test_a_closed_line_is_consistent_once_its_late_job_is_stopped() -> None:
    line = a_line(0, "Failed", training_job="")
    assert found(a_world([line], [a_job(0, "Stopped")])) == []
    assert found(a_world([line], [a_job(0, "Completed")])) == [("I4", "other")]


def test_a_cancelled_line_must_not_have_a_running_job() -> None:
    cancels = a_cancel("all", "2026-11-20T11:30:00Z")
    world = a_world([a_line(0, "InProgress")], [a_job(0, "InProgress")], cancels=cancels)
    assert found(world) == [("I5", "other")]
    assert found(replace(world, read_at=NOON - 1500)) == [], "stopping takes a while"
    elsewhere = a_cancel("region#eu-west-1", "2026-11-20T11:30:00Z")
    assert found(replace(world, cancels=elsewhere)) == []


def test_only_requests_sent_before_a_cancel_create_jobs_after_it() -> None:
    cancels = a_cancel("job#00000", "2026-11-20T11:00:00Z")
    at = NOON - 3600
    line = a_line(0, "Stopped")
    on_its_way = a_world([line], [a_job(0, "Stopped", created_at=at + 5, ended_at=at + 9)], cancels=cancels)
    assert found(on_its_way) == []
    late = a_job(0, "Stopped", created_at=at + 500, ended_at=at + 900)
    assert found(replace(on_its_way, training_jobs=[late])) == [("I5", "other")]


def test_a_training_job_has_the_region_and_role_of_its_line() -> None:
    wrong = a_job(0, details=Details(state=JobState.COMPLETED, role="role-of-somebody"))
    assert found(a_world([a_line(0)], [wrong])) == [("I7", "other")]
    right = a_job(0, details=Details(state=JobState.COMPLETED, role=ROLES["us-east-1"]))
    assert found(a_world([a_line(0)], [right])) == []
    assert ("I7", "other") in found(a_world([a_line(0)], [a_job(0, region="eu-west-1")]))


def test_a_manifest_that_was_not_accepted_starts_nothing() -> None:
    assert found(a_world([], [], calls=[created(0, submission="ffffffff")])) == [("I7", "other")]
    by_hand = {"service": "batch", "action": "SubmitJob", "region": "us-east-1", "parameters": {"jobName": "by-hand"}}
    assert found(a_world([], [], calls=[by_hand])) == []


def test_a_late_job_of_a_failed_line_is_consistent_once_it_is_stopped() -> None:
    line = a_line(0, "Failed", training_job=f"traingrid-{SUBMISSION}-0-1")
    assert found(a_world([line], [a_job(0, "Stopped")])) == []
    assert found(a_world([{**line, "training_job_arn": "arn:x"}], [a_job(0, "Stopped")])) == [("I4", "other")]
