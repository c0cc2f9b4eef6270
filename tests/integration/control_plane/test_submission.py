"""End to end with children: a manifest passes the intake, orchestrator and trainings, then is cancelled or retried."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import wait_until
from tests.support.ledger_items import job_key
from traingrid.api.control_plane import ControlPlane
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.batch import Batch
from traingrid.cli import retry as retry_command
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.job.facts import JobFacts
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.damage import intact
from traingrid.ledger.facts import AttemptFacts
from traingrid.submission.retry import Retrier
from traingrid.submission.status import submission_status


def manifest(account: Account, *lines: tuple[str, str]) -> str:
    """Return a manifest of (Region, seconds) lines; a training fails if its seconds are not a number."""
    rows = [f"{region},s3://{account.data(region)}/x,{seconds}" for region, seconds in lines]
    return "\n".join(["region,s3_uri,hp.seconds", *rows]) + "\n"


def states(account: Account, submission: str) -> list[str]:
    return [item.state for item in intact(account.ledger.jobs(submission))]


def ended(account: Account, submission: str, jobs: int) -> list[str]:
    wait_until(lambda: len(found := states(account, submission)) == jobs and FINAL_STATES.issuperset(found))
    wait_until(lambda: status(account, submission).ended)
    return states(account, submission)


def status(account: Account, submission: str) -> Any:
    bucket = account.deployment.manifest_bucket
    return submission_status(submission, bucket, account.ledger, account.children, account.storage)


@pytest.fixture
def retrier(account: Account) -> Retrier:
    batch = Batch(account.deployment, account.deployment.grid.home)
    return Retrier(
        deployment=account.deployment,
        ledger=account.ledger,
        storage=account.storage,
        batch=batch,
        children=account.children,
    )


@pytest.fixture
def plane(account: Account, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    """The control plane that the commands find."""
    made = ControlPlane(
        deployment=account.deployment,
        ledger=account.ledger,
        batch=Batch(account.deployment, account.deployment.grid.home),
        storage=account.storage,
    )
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: made)
    return made


def test_a_retry_runs_failed_jobs_and_leaves_completed_ones(
    account: Account, retrier: Retrier, plane: ControlPlane, cloud: LocalCloud, tmp_path: Path
) -> None:
    submission = account.accept(manifest(account, (HOME, "0"), (OTHER, "never"), (HOME, "never")))
    assert ended(account, submission, 3) == ["Completed", "Failed", "Failed"]
    with pytest.raises(UsageError, match=f"No job to retry has its data in {OTHER}"):
        tg.Grid(plane).submission(submission).retry(index=2, region=OTHER)
    retried = retrier.retry(submission, "Ada")
    assert (retried.indices, retried.left) == ([1, 2], {})
    again: AttemptFacts = {"region": HOME, "state": JobState.FAILED}
    assert not account.ledger.next_attempt(job_key(2, submission=submission), again, HOME, reopen="again"), (
        "the retry was faster"
    )
    assert ended(account, submission, 3) == ["Completed", "Failed", "Failed"]
    assert [account.line(submission, index).attempt for index in range(3)] == [1, 2, 2]
    (previous,) = account.line(submission, 1).tried
    assert (previous.attempt, previous.region, previous.failure) == (1, OTHER, "algorithm")
    assert status(account, submission).jobs[1].tried == (f"{OTHER} (algorithm)",)
    (tmp_path / "corrected.csv").write_text(manifest(account, (HOME, "1"), (OTHER, "0"), (HOME, "never")))
    output = CliRunner().invoke(cli, ["retry", submission, str(tmp_path / "corrected.csv")]).output
    assert "job 0 is not retried: its line has changed (hyperparameters), but it has not failed" in output
    assert "job 1, line 3, has changed: hyperparameters" in output
    assert re.search(r"^submitted \S+: 1 job$", output, re.MULTILINE)
    assert "1 job retried" in output
    assert ended(account, submission, 3) == ["Completed", "Completed", "Failed"]
    assert [account.line(submission, index).attempt for index in range(3)] == [1, 3, 2]
    world = read_world(
        account.deployment, submission=submission, details=True, at_rest=True, calls=cloud.record.entries()
    )
    assert audit(world) == []
    output = CliRunner().invoke(cli, ["audit", submission]).output
    assert output.endswith("3 jobs of 1 submission, 6 training jobs, 2 Regions\nduplicates 0, orphans 0, lost 0\n")
    assert plane.ledger is account.ledger


def test_cancelled_jobs_end_with_their_children_and_are_not_retried(
    account: Account, retrier: Retrier, plane: ControlPlane, cloud: LocalCloud
) -> None:
    submission = account.accept(manifest(account, (HOME, "600"), (OTHER, "600")))
    wait_until(lambda: states(account, submission) == ["InProgress", "InProgress"])
    known = tg.Grid(plane).submission(submission[:6])
    report = known.cancel(reason="the data was wrong")
    assert (len(report.batch_jobs), report.errors) == (1, {})
    wait_until(lambda: {account.child(submission, index) for index in (0, 1)} == {"FAILED"})
    for name, region in ((f"traingrid-{submission}-0-1", HOME), (f"traingrid-{submission}-1-1", OTHER)):
        assert account.ended(name, region) == "Stopped"
    account.reconciler().run_pass()
    assert ended(account, submission, 2) == ["Stopped", "Stopped"]
    world = read_world(
        account.deployment, submission=submission, details=True, at_rest=True, calls=cloud.record.entries()
    )
    assert audit(world) == []
    reason = "Cancelled by arn:aws:sts::123456789012:user/moto: the data was wrong"
    assert [job.reason for job in known.wait(timeout=120).jobs] == [reason] * 2
    retried = known.retry()
    assert (retried.indices, set(retried.left)) == ([], {0, 1})
    output = CliRunner().invoke(cli, ["retry", submission]).output
    assert "job 0 is not retried: it was cancelled, which is permanent" in output
    assert f"Submission {submission} has nothing to retry." in output
    assert retry_command.retry.name == "retry"
    assert plane.deployment is account.deployment


def test_logs_prints_the_log_of_a_lines_child(account: Account, plane: ControlPlane) -> None:
    submission = account.accept(manifest(account, (HOME, "0"), (OTHER, "never")))
    ended(account, submission, 2)
    output = CliRunner().invoke(cli, ["logs", "--child", submission, "1"]).output
    begun, *rest = output.splitlines()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\S+Z submission {submission}, index 1, line 3, attempt 1 .*", begun)
    assert any(f"traingrid-{submission}-1-1: Failed" in line for line in rest)
    assert not any(line.startswith("{") for line in rest)
    refused = CliRunner().invoke(cli, ["logs", "--child", submission, "2"])
    assert refused.exit_code == 1
    assert plane.ledger is account.ledger


def test_logs_of_a_rejected_training_job_refers_to_the_childs_log(account: Account, plane: ControlPlane) -> None:
    submission = account.submit((HOME,))
    refused: JobFacts = {
        "state": JobState.FAILED,
        "training_job": "traingrid-never-made",
        "reason": "SageMaker refuses it.",
    }
    account.ledger.record_job(job_key(submission=submission), refused)
    result = CliRunner().invoke(cli, ["logs", submission, "0"])
    assert result.exit_code == 1
    message = "The training job of job 0 has printed nothing: Failed. SageMaker refuses it."
    assert str(result.exception) == f"{message} For the log of its child: traingrid logs --child {submission} 0."
    assert plane.ledger is account.ledger


def test_the_audit_exits_with_1_and_reports_orphans(account: Account, plane: ControlPlane) -> None:
    orphan = account.train("eeeeeeee", 0)
    result = CliRunner().invoke(cli, ["audit"])
    assert result.exit_code == 1
    assert f"I3 orphan: {orphan} in {HOME} is InProgress, and it has no line" in result.output
    assert "duplicates 0, orphans 1, lost 0" in result.output
    account.reconciler().run_pass()
    account.ended(orphan)
    assert plane.deployment is account.deployment
