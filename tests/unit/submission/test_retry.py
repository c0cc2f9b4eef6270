"""Retrying: moves lines to their next attempt, and submits their children before the reconciler closes them."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.ledger_items import existing, job_key
from tests.support.module_time import replace_time
from tests.support.recording_queue import RecordingQueue
from tests.support.sample_deployment import SAMPLE, SAMPLE_BUCKETS
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client_without_retries
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.backends.joint_inventory import PartlyListedError
from traingrid.backends.training_job import TrainingJob
from traingrid.child.environment import Child, find_job, with_stored_jobs
from traingrid.cli.main import main
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.backend_traits import BackendName
from traingrid.job.job import Job, JobReplica
from traingrid.job.state import JobState
from traingrid.late_request import CREATES_END_SECONDS, SEND_WITHIN_SECONDS, late_after_minutes
from traingrid.ledger.damage import intact
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array
from traingrid.ledger.user_requests import cancel_of_job
from traingrid.manifest.line import Line, jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.reconciler.reconciler import GRACE_SECONDS
from traingrid.submission import retry as retrying
from traingrid.submission import retry_plan
from traingrid.submission.batch_children import ChildStatus
from traingrid.submission.files import jobs_key, normalised, read_job
from traingrid.submission.retry import Retried, Retrier
from traingrid.submission.retry_plan import ToRetry

SUBMISSION = "0123abcd"
HEADER = "region,s3_uri,name,hp.learning_rate,priority\n"


class FakeChildren:
    """The children of a submission; all have succeeded except those in `failed`."""

    def __init__(self) -> None:
        self.failed: set[int] = set()

    def of(self, _head: Any, waiting: dict[int, Any]) -> dict[int, ChildStatus]:
        status = {index: "FAILED" if index in self.failed else "RUNNING" for index in waiting}
        return {index: ChildStatus(id=f"array:{index}", status=status[index]) for index in waiting}


@pytest.fixture
def children() -> FakeChildren:
    return FakeChildren()


@pytest.fixture
def batch() -> RecordingQueue:
    return RecordingQueue()


@pytest.fixture
def retrier(deployment: Deployment, storage: Storage, ledger: Ledger, batch: Any, children: Any) -> Retrier:
    return Retrier(deployment=deployment, ledger=ledger, storage=storage, batch=batch, children=children)


def row(name: str, lr: float = 0.1, priority: str = "", region: str = "us-east-1") -> str:
    return f"{region},s3://{SAMPLE_BUCKETS[region]}/{name},{name},{lr},{priority}\n"


def lines(retrier: Retrier, *rows: str) -> list[Line]:
    return parse((HEADER + "".join(rows)).encode(), retrier.deployment)


def submitted(retrier: Retrier, rows: list[str], states: list[str]) -> None:
    """Submit rows like the intake, and set their jobs to the given states, by index."""
    jobs = jobs_of_lines(lines(retrier, *rows), retrier.deployment, SUBMISSION)
    target = S3Uri(retrier.deployment.manifest_bucket, jobs_key(SUBMISSION))
    retrier.storage.write(target, normalised(jobs)[0], "application/jsonl")
    retrier.ledger.claim_submission(SUBMISSION, "request-1", {"jobs": len(jobs), "manifest": "s3://bucket/x.csv"})
    array = Array(batch_job="array", file="jobs.jsonl", count=len(jobs))
    retrier.ledger.record_submitted(SUBMISSION, "array", [array])
    for job, state in zip(jobs, states, strict=True):
        if state != "unopened":
            retrier.ledger.open_job(SUBMISSION, job)
            retrier.ledger.record_job(job_key(job.index), {"state": JobState(state)})


def attempts(retrier: Retrier) -> list[int]:
    return [item.attempt for item in intact(retrier.ledger.jobs(SUBMISSION))]


def test_a_corrected_line_with_another_priority_keeps_its_job(retrier: Retrier, batch: RecordingQueue) -> None:
    submitted(retrier, [row("a"), row("b")], ["Completed", "Failed"])
    todo = retrier.planned(SUBMISSION, lines(retrier, row("a"), row("b", lr=0.2, priority="9")))
    assert (todo.left, todo.changed) == ({}, {1: ("hyperparameters", "priority")})
    assert retrier.run(todo, "Ada").indices == [1]
    assert attempts(retrier) == [1, 2]
    (array,) = batch.submitted
    job = read_job(retrier.storage, array.jobs, 0)
    assert (job.index, job.name, job.hyperparameters["learning_rate"]) == (1, "b", "0.2")
    assert job.output.endswith(f"/{SUBMISSION}/1/")


def test_lines_are_paired_by_their_place_in_the_file_and_not_by_priority(retrier: Retrier) -> None:
    rows = [row("a"), row("b", priority="5"), row("c", priority="9")]
    submitted(retrier, rows, ["Failed"] * 3)  # indexes 2, 1, 0
    corrected = lines(retrier, "# corrected\n\n", row("a", lr=0.3), *rows[1:])
    assert retrier.planned(SUBMISSION, corrected).changed == {2: ("hyperparameters",)}
    retrier.retry(SUBMISSION, "Ada", corrected)
    retrier.ledger.record_job(job_key(2, 2), {"state": JobState.FAILED})
    again = lines(retrier, row("a", lr=0.4), *rows[1:])
    assert retrier.planned(SUBMISSION, again).changed == {2: ("hyperparameters",)}, "comments move no line"


@pytest.mark.parametrize(
    "rows",
    [
        [row("b"), row("a"), row("c")],
        [row("b"), row("a", lr=0.2), row("c")],
        [row("b"), row("c"), row("d")],
        [row("a"), row("b")],
        [row("a"), row("b"), row("c"), row("d")],
    ],
)
def test_moved_added_or_removed_rows_are_refused(retrier: Retrier, batch: RecordingQueue, rows: list[str]) -> None:
    submitted(retrier, [row("a"), row("b"), row("c")], ["Completed", "Failed", "Failed"])
    with pytest.raises(UsageError, match="Nothing was changed") as refused:
        retrier.retry(SUBMISSION, "Ada", lines(retrier, *rows))
    assert refused.value.exit_code == 2
    assert attempts(retrier) == [1, 1, 1]
    assert batch.submitted == []


def test_equal_lines_are_distinguished_by_their_position(retrier: Retrier) -> None:
    rows = [row("a"), row("a"), row("b")]
    submitted(retrier, rows, ["Failed"] * 3)
    corrected = lines(retrier, rows[0], row("a", lr=0.2), rows[2])
    assert retrier.planned(SUBMISSION, corrected).changed == {1: ("hyperparameters",)}


def test_a_changed_default_is_named_as_the_cause_of_a_changed_line(retrier: Retrier) -> None:
    submitted(retrier, [row("a"), row("b")], ["Completed", "Failed"])
    grid = retrier.deployment.grid
    other = grid.model_copy(update={"job": grid.job.model_copy(update={"volume_gb": 999})})
    object.__setattr__(retrier.deployment, "grid", other)
    todo = retrier.planned(SUBMISSION, lines(retrier, row("a"), row("b", lr=0.2)))
    assert todo.changed == {1: ("volume_gb", "hyperparameters")}
    assert "its line has changed (volume_gb), but it has not failed" in todo.left[0]


@pytest.mark.usefixtures("aws")
def test_a_slice_is_submitted_before_the_reconciler_closes_its_lines() -> None:
    config = client_without_retries("batch", "us-east-1").meta.config
    assert retrying.SLICE_SECONDS + config.connect_timeout + config.read_timeout < GRACE_SECONDS


def test_slowly_reopened_lines_are_submitted_in_several_arrays(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(retrier, [row(f"line-{number}") for number in range(10)], ["Failed"] * 10)
    seconds, reopen = [0.0], Ledger.next_attempt

    def slow(*arguments: Any, **options: Any) -> bool:
        seconds[0] += 10.0
        return reopen(*arguments, **options)

    monkeypatch.setattr(Ledger, "next_attempt", slow)
    replace_time(monkeypatch, "traingrid.submission.retry", monotonic=lambda: seconds[0])
    arrays: list[tuple[str, int]] = []
    one_by_one = Retrier(**{**vars(retrier), "at_once": 1})
    done = one_by_one.run(one_by_one.planned(SUBMISSION), "Ada", lambda *array: arrays.append(array))
    first, second = f"batch-{SUBMISSION}-retry-1", f"batch-{SUBMISSION}-retry-2"
    assert [(array.count, array.chunk) for array in batch.submitted] == [(5, "retry-1"), (5, "retry-2")]
    assert arrays == [(first, 5), (second, 5)]
    assert (done.indices, done.batch_jobs) == (list(range(10)), [first, second])
    head = existing(retrier.ledger.submission(SUBMISSION))
    assert [array.count for array in head.arrays] == [10, 5, 5]
    assert read_job(retrier.storage, ObjectVersion.parse(head.arrays[2].file), 0).index == 5


def test_lines_are_reopened_concurrently(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(retrier, [row(f"line-{number}") for number in range(8)], ["Failed"] * 8)
    all_there, reopen = threading.Barrier(8), Ledger.next_attempt

    def together(*arguments: Any, **options: Any) -> bool:
        all_there.wait(timeout=120)
        return reopen(*arguments, **options)

    monkeypatch.setattr(Ledger, "next_attempt", together)
    assert retrier.retry(SUBMISSION, "Ada").indices == list(range(8))


def test_a_running_job_is_not_retried_even_in_a_removed_region(
    retrier: Retrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = {
        ("ap-south-1", "InProgress"): [SimpleNamespace(identity=SimpleNamespace(index=1), name="grid-0123abcd-1-1")]
    }

    def in_region(_grid: Any, region: str) -> SimpleNamespace:
        return SimpleNamespace(listed=lambda state, _submission: running.get((region, state), []))

    monkeypatch.setattr(retry_plan, "inventory_of", in_region)
    submitted(retrier, [row("a"), row("b")], ["Failed", "InProgress"])
    key, moved = job_key(1).table_key, {"state": JobState.FAILED, "region": "ap-south-1"}
    assert retrier.ledger._table.update(key, moved, "#attempt = :attempt", {":attempt": 1})
    todo = retrier.planned(SUBMISSION)
    assert [job.index for job in todo.jobs] == [0]
    assert todo.left == {1: "its training job grid-0123abcd-1-1 still runs; the reconciler stops it within minutes"}


def test_lines_elsewhere_are_retried_while_the_cluster_of_others_does_not_answer(
    retrier: Retrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent:
        def listed(self, _state: str, _submission: str) -> Iterator[TrainingJob]:
            raise PartlyListedError("eks", TraingridError("The cluster research does not exist."))
            yield

    monkeypatch.setattr(retry_plan, "inventory_of", lambda *_: Silent())
    submitted(retrier, [row("a"), row("b")], ["Failed", "InProgress"])
    ended = {"state": JobState.FAILED, "backend": "eks"}
    assert retrier.ledger._table.update(job_key(1).table_key, ended, "#attempt = :attempt", {":attempt": 1})
    todo = retrier.planned(SUBMISSION)
    assert [job.index for job in todo.jobs] == [0]
    assert todo.left == {
        1: "a training job of it may still run: us-east-1: The training jobs on Amazon EKS cannot be listed: The "
        "cluster research does not exist; retry it later, or submit its line again"
    }


def test_jobs_of_a_concurrent_retry_are_not_retried(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(retrier, [row("a"), row("b")], ["Failed"] * 2)
    todo = retrier.planned(SUBMISSION)
    retrier.retry(SUBMISSION, "Bob")
    done = retrier.run(todo, "Ada")
    assert (done.indices, done.batch_jobs) == ([], [])
    assert done.left == {0: "another retry has started it", 1: "another retry has started it"}


def test_lines_with_failed_children_are_listed_until_they_are_closed(retrier: Retrier, children: FakeChildren) -> None:
    rows = [row(name) for name in "abcdef"]
    submitted(retrier, rows, ["Pending", "unopened", "Failed", "Pending", "InProgress", "Waiting"])
    children.failed = {0, 1, 4, 5}
    retrier.ledger.request_cancel(SUBMISSION, cancel_of_job(5), {"by": "Ada"})
    todo = retrier.planned(SUBMISSION)
    assert (todo.late, [job.index for job in todo.jobs]) == ([0, 1], [2])
    assert set(todo.left) == {0, 1}
    corrected = retrier.planned(SUBMISSION, lines(retrier, row("a", lr=0.2), *rows[1:]))
    assert (corrected.late, corrected.jobs) == ([0], [])
    assert "Batch child has failed" in corrected.left[0]


def test_a_retry_of_one_job_leaves_the_others(retrier: Retrier, batch: RecordingQueue) -> None:
    submitted(retrier, [row("a"), row("b"), row("c")], ["Failed", "Stopped", "Failed"])
    done = retrier.retry(SUBMISSION, "Ada", index=1)
    assert (done.indices, done.left) == ([1], {})
    assert attempts(retrier) == [1, 2, 1]
    assert [read_job(retrier.storage, array.jobs, 0).index for array in batch.submitted] == [1]


@pytest.mark.parametrize(("index", "why"), [(0, "is Completed"), (1, "is Pending"), (2, "no job with index 2")])
def test_a_retry_of_one_job_that_has_not_failed_is_refused(retrier: Retrier, index: int, why: str) -> None:
    submitted(retrier, [row("a"), row("b")], ["Completed", "unopened"])
    with pytest.raises(UsageError, match=why):
        retrier.planned(SUBMISSION, index=index)


def test_a_retry_of_one_job_reports_that_it_cannot_be_retried_yet(retrier: Retrier, children: FakeChildren) -> None:
    submitted(retrier, [row("a"), row("b")], ["Failed", "Pending"])
    children.failed = {1}
    todo = retrier.planned(SUBMISSION, index=1)
    assert (todo.jobs, todo.late, set(todo.left)) == ([], [1], {1})


def commanded(retrier: Retrier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command use a retrier, as a caller whose ARN needs no request."""
    plane = ControlPlane(
        deployment=retrier.deployment, ledger=retrier.ledger, batch=retrier.batch, storage=retrier.storage
    )
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    monkeypatch.setattr(ControlPlane, "retrier", retrier)
    monkeypatch.setattr(ControlPlane, "caller", lambda _plane: "arn:aws:iam::123456789012:user/Ada")


def test_the_command_retries_one_job(
    retrier: Retrier, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    commanded(retrier, monkeypatch)
    submitted(retrier, [row("a"), row("b")], ["Failed"] * 2)
    monkeypatch.setattr(sys, "argv", ["traingrid", "retry", SUBMISSION, "--index", "1"])
    main()
    assert "1 job retried" in capsys.readouterr().out
    assert attempts(retrier) == [1, 2]
    (tmp_path / "lines.csv").write_text(HEADER)
    monkeypatch.setattr(sys, "argv", ["traingrid", "retry", SUBMISSION, str(tmp_path / "lines.csv"), "--index", "0"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "MANIFEST and --index were both given." in capsys.readouterr().err
    assert attempts(retrier) == [1, 2]


@pytest.mark.parametrize("words", [(), ("lines.csv",)])
def test_hardware_warnings_precede_the_retry(
    retrier: Retrier,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
) -> None:
    grid = retrier.deployment.grid.model_dump(mode="json", exclude_defaults=True)
    grid["images"] |= {"mine": {"build": "training", "target": "gpu", "efa": "none"}}
    grid["instance_types"] = ["ml.p3.16xlarge", "ml.p4d.24xlarge"]
    grid["job"] = grid.get("job", {}) | {"image": "mine", "instance_type": "ml.p4d.24xlarge", "instance_count": 2}
    deployment = replace(
        retrier.deployment, grid=GridSettings.model_validate(grid), images={"gpu": f"1@sha256:{'a' * 64}"}
    )
    retrier = replace(retrier, deployment=deployment)
    commanded(retrier, monkeypatch)
    monkeypatch.setattr("traingrid.cli.retry.read_manifest", lambda *_: (lines(retrier, row("a", 0.2)), NO_SOURCES))
    monkeypatch.setattr(Retrier, "run", lambda *_arguments: print("ran", file=sys.stderr) or nothing_retried())
    submitted(retrier, [row("a")], ["Failed"])
    monkeypatch.chdir(tmp_path)
    Path("lines.csv").write_text("")
    monkeypatch.setattr(sys, "argv", ["traingrid", "retry", SUBMISSION, *words])
    main()
    warning, ran = capsys.readouterr().err.splitlines()
    assert warning.startswith("Warning: line 2: ml.p4d.24xlarge has EFA, but the image mine is built without it")
    assert ran == "ran"


def nothing_retried() -> Retried:
    return Retried(batch_jobs=[], indices=[], left={}, late=[])


NO_SOURCES = SimpleNamespace(upload=lambda _announce: None)


def test_the_command_fails_while_a_line_is_not_closed_yet(
    retrier: Retrier, children: FakeChildren, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commanded(retrier, monkeypatch)
    submitted(retrier, [row("a"), row("b")], ["Pending", "Completed"])
    children.failed = {0}
    monkeypatch.setattr(sys, "argv", ["traingrid", "retry", SUBMISSION])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    output = capsys.readouterr()
    assert (
        output.out
        == "job 0 is not retried: its Batch child has failed, but the reconciler has not recorded the result "
        "of the job yet\n"
    )
    assert "1 job cannot be retried yet" in output.err
    assert "within two passes" in output.err


def test_a_line_closed_before_its_array_existed_is_not_retried(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(retrier, [row("a"), row("b"), row("c")], ["Failed"] * 3)
    submit = batch.submit

    def slow(*arguments: Any, **more: Any) -> str:
        retrier.ledger.record_job(
            job_key(1, 2), {"state": JobState.FAILED, "reason": "Its Batch child array:1 is FAILED"}
        )
        retrier.ledger.record_job(
            job_key(2, 2), {"state": JobState.FAILED, "training_job": "x", "failure": "algorithm"}
        )
        return submit(*arguments, **more)

    monkeypatch.setattr(batch, "submit", slow)
    done = retrier.retry(SUBMISSION, "Ada")
    assert (done.indices, done.late) == ([0, 2], [1])
    assert "was closed before its Batch job existed" in done.left[1]
    assert retrier.retry(SUBMISSION, "Ada").indices == [1, 2]


@pytest.mark.parametrize("error", ["refused", "unreachable"])
def test_an_interrupted_retry_reports_its_progress_and_the_next_step(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    submitted(retrier, [row(f"line-{number}") for number in range(3)], ["Failed"] * 3)
    monkeypatch.setattr(retrying, "MAX_ARRAY", 2)
    if error == "refused":
        batch.refuses = {"retry-2"}
    else:
        lost = EndpointConnectionError(endpoint_url="dynamodb")
        claims = iter([lambda: 1, _raiser(lost)])

        monkeypatch.setattr(Ledger, "claim_retry", lambda *_: next(claims)())
    with pytest.raises(TraingridError, match=r"interrupted after 2 of 3 jobs.*the same command"):
        retrier.retry(SUBMISSION, "Ada")
    assert len(batch.submitted) == 1


def test_a_retry_that_did_not_run_for_minutes_after_its_mark_reopens_nothing(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(retrier, [row("a")], ["Failed"])
    claim, clock = Ledger.claim_retry, [0.0]
    monkeypatch.setattr(retrying, "late_after_minutes", lambda: late_after_minutes(lambda: clock[0], lambda: 0.0))

    def suspended(*arguments: Any) -> int:
        clock[0] += SEND_WITHIN_SECONDS + 1
        return claim(*arguments)

    monkeypatch.setattr(Ledger, "claim_retry", suspended)
    with pytest.raises(TraingridError, match=r"interrupted after 0 of 1 jobs.*did not run for minutes"):
        retrier.retry(SUBMISSION, "Ada")
    assert (existing(retrier.ledger.job(SUBMISSION, 0)).attempt, batch.submitted) == (1, [])


def _raiser(error: Exception) -> Callable[[], int]:
    def raises() -> int:
        raise error

    return raises


def test_an_interrupted_command_lists_submitted_and_remaining_jobs(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commanded(retrier, monkeypatch)
    monkeypatch.setattr(retrying, "MAX_ARRAY", 2)
    submitted(retrier, [row(f"line-{number}") for number in range(3)], ["Failed"] * 3)
    submit = batch.submit

    def interrupts(*arguments: Any, **more: Any) -> str:
        if batch.submitted:
            raise KeyboardInterrupt
        return submit(*arguments, **more)

    monkeypatch.setattr(batch, "submit", interrupts)
    monkeypatch.setattr(sys, "argv", ["traingrid", "retry", SUBMISSION])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    output = capsys.readouterr()
    assert output.out == f"submitted batch-{SUBMISSION}-retry-1: 2 jobs\n"
    assert "after two passes of the reconciler" in output.err


@pytest.mark.parametrize(
    ("backends", "failure", "attempts"),
    [
        (("eks", "sagemaker"), "capacity", ("eks", "sagemaker")),
        (("eks", "sagemaker"), "spot_interruption", ("eks", "sagemaker")),
        (("eks", "sagemaker"), "capacity", ("sagemaker", "eks")),
        (("eks", "sagemaker"), "algorithm", ("eks", "eks")),
        (("sagemaker",), "algorithm", ("eks", "sagemaker")),
        (("eks",), "algorithm", ("sagemaker", "eks")),
    ],
)
def test_a_retry_moves_to_the_next_backend_after_a_failure_of_capacity_only(
    retrier: Retrier,
    job: Job,
    backends: tuple[BackendName, ...],
    failure: str,
    attempts: tuple[BackendName, BackendName],
) -> None:
    ledger, line = retrier.ledger, job.model_copy(update={"backends": attempts[:1]})
    ledger.open_job(SUBMISSION, line)
    ledger.record_job(job_key(), {"state": JobState.FAILED, "failure": failure})
    corrected, item = job.model_copy(update={"backends": backends}), existing(ledger.job(SUBMISSION, 0))
    todo = ToRetry(submission=SUBMISSION, jobs=[corrected], ended={0: item}, left={}, late=[], changed={})
    assert retrier._reopen(todo, 1, lambda: False, corrected)
    retried = existing(ledger.job(SUBMISSION, 0))
    assert [attempt.backend for attempt in retried.attempts().values()] == [*attempts]


def test_a_line_whose_training_job_may_still_be_created_is_retried_later(
    retrier: Retrier, batch: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(retrier, [row("a"), row("b"), row("c")], ["Pending"] * 3)
    for index in range(3):
        retrier.ledger.record_job(job_key(index), {"phase": "Creating"}, opens="a request")
        retrier.ledger.record_job(job_key(index), {"state": JobState.FAILED}, closes="a request" if index == 2 else "")
    retrier.ledger.request_cancel(SUBMISSION, cancel_of_job(1), {})
    todo = retrier.planned(SUBMISSION)
    assert ([job.index for job in todo.jobs], todo.late) == ([2], [0])
    assert todo.left[0].startswith("a child that was lost, or does not run, may still create its training job; retry")
    assert todo.left[1].startswith("it was cancelled")
    replace_time(monkeypatch, "traingrid.submission.retry_plan", time=lambda: time.time() + CREATES_END_SECONDS)
    assert [job.index for job in retrier.planned(SUBMISSION).jobs] == [0, 2]
    assert batch.submitted == []


def test_a_line_that_was_submitted_to_batch_by_hand_is_retried(retrier: Retrier, batch: RecordingQueue) -> None:
    uri = S3Uri(retrier.deployment.manifest_bucket, "by-hand/x.csv")
    retrier.storage.write(uri, SAMPLE.encode(), "text/csv")
    given = Child(array_file=ObjectVersion(uri.bucket, uri.key), index=2, size=4, id="by-hand:2", attempt=1)
    child = with_stored_jobs(given, retrier.deployment, retrier.storage, retrier.ledger)
    job = find_job(child, retrier.storage)
    retrier.ledger.open_job(child.submission, job)
    retrier.ledger.record_job(job_key(2, submission=child.submission), {"state": JobState.FAILED})
    retried = retrier.retry(child.submission, "ada")
    assert (retried.indices, retried.left) == ([2], {})
    assert [item.attempt for item in intact(retrier.ledger.jobs(child.submission))] == [2]
    (array, again) = existing(retrier.ledger.submission(child.submission)).arrays
    assert (array.count, again.count, len(batch.submitted)) == (4, 1, 1)


def test_a_user_moves_jobs_to_another_region_of_their_lines(retrier: Retrier) -> None:
    submitted(retrier, [row("a"), row("b"), row("c")], ["Failed", "Failed", "Completed"])
    (roaming, *_) = jobs_of_lines(lines(retrier, row("a")), retrier.deployment, SUBMISSION)
    replica = JobReplica(inputs=roaming.inputs, output=roaming.output)
    others = jobs_of_lines(lines(retrier, row("a"), row("b"), row("c")), retrier.deployment, SUBMISSION)[1:]
    jobs = [roaming.model_copy(update={"replicas": {"eu-west-1": replica}}), *others]
    target = S3Uri(retrier.deployment.manifest_bucket, jobs_key(SUBMISSION))
    retrier.storage.write(target, normalised(jobs)[0], "application/jsonl")
    done = replace(retrier, region="eu-west-1").retry(SUBMISSION, "Ada")
    assert (done.indices, done.left) == ([0], {1: "it has no data in eu-west-1"})
    moved = existing(retrier.ledger.job(SUBMISSION, 0))
    assert (moved.region, moved.attempt, moved.tried[0].region) == ("eu-west-1", 2, "us-east-1")


def test_a_region_without_data_of_any_job_changes_nothing(retrier: Retrier, batch: RecordingQueue) -> None:
    submitted(retrier, [row("a")], ["Failed"])
    with pytest.raises(UsageError, match=r"No job to retry has its data in eu-west-1\. Nothing was retried"):
        replace(retrier, region="eu-west-1").retry(SUBMISSION, "Ada")
    assert (attempts(retrier), batch.submitted) == ([1], [])
