"""Cancel with a running Batch and SageMaker: the intent is recorded, and children and training jobs end."""

import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
import yaml
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import wait_until
from tests.support.ledger_items import job_key
from tests.support.sample_job import sample_job
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.backends.training_job import TrainingJob
from traingrid.cli.cancel import cancel
from traingrid.cli.main import cli, main
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.model import GridSettings
from traingrid.job.facts import JobFacts
from traingrid.job.state import JobState
from traingrid.ledger.user_requests import is_cancelled
from traingrid.submission.batch_children import Children
from traingrid.submission.cancel import Canceller, CancelTarget


@pytest.fixture
def canceller(account: Account) -> Canceller:
    return Canceller(
        deployment=account.deployment, ledger=account.ledger, children=account.children, storage=account.storage
    )


def test_a_cancelled_submission_ends_in_all_regions(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME, OTHER, HOME))
    running = account.train(submission, 0), account.train(submission, 1, region=OTHER)
    report = canceller.cancel(CancelTarget(submission=submission, by="Ada", reason="wrong data"))
    assert sorted(report.training_jobs) == sorted(running)
    assert (account.ended(running[0]), account.ended(running[1], OTHER)) == ("Stopped", "Stopped")
    wait_until(lambda: {account.child(submission, index) for index in range(3)} == {"FAILED"})
    account.reconciler().run_pass()
    assert [account.line(submission, index).state for index in range(3)] == ["Stopped"] * 3
    assert account.ledger.cancels(submission)["all"].by == "Ada"
    assert audit(account.world(submission, at_rest=True)) == []


@pytest.mark.parametrize("items", [("submission",), ("submission", "job#00000", "job#00001")])
def test_a_submission_whose_items_a_person_deleted_can_be_cancelled(
    account: Account, canceller: Canceller, items: tuple[str, ...]
) -> None:
    submission = account.submit((HOME, HOME))
    running = account.train(submission, 0)
    dynamodb, table = client("dynamodb", HOME), account.deployment.table
    found = dynamodb.query(
        TableName=table,
        KeyConditionExpression="submission = :submission",
        ExpressionAttributeValues={":submission": {"S": submission}},
    )["Items"]
    assert {item["item"]["S"] for item in found} == {"submission", "job#00000", "job#00001"}
    for item in items:
        dynamodb.delete_item(TableName=table, Key={"submission": {"S": submission}, "item": {"S": item}})
    report = canceller.cancel(CancelTarget(submission=submission, by="Ada"))
    assert (report.training_jobs, report.errors) == ([running], {})
    assert account.ended(running) == "Stopped"
    with pytest.raises(UsageError, match="There is no submission ffffffff"):
        canceller.cancel(CancelTarget(submission="ffffffff", by="Ada"))


def test_a_repeated_cancel_changes_nothing_and_succeeds(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME,))
    name = account.train(submission, 0)
    wanted = CancelTarget(submission=submission, by="Ada")
    canceller.cancel(wanted)
    account.ended(name)
    assert canceller.cancel(wanted).training_jobs == []


def test_cancelling_one_index_leaves_the_other_jobs_running(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME, HOME))
    names = [account.train(submission, index) for index in (0, 1)]
    report = canceller.cancel(CancelTarget(submission=submission, index=1, by="Ada"))
    assert report.training_jobs == [names[1]]
    assert [job.partition(":")[2] for job in report.batch_jobs] == ["1"]
    assert account.ended(names[1]) == "Stopped"
    assert account.described(names[0])["TrainingJobStatus"] == "InProgress"
    wait_until(lambda: account.child(submission, 1) == "FAILED")
    assert account.child(submission, 0) not in ("FAILED", "SUCCEEDED")


@pytest.mark.parametrize("region", ["", OTHER])
def test_a_child_that_records_the_end_of_a_training_job_on_a_cluster_is_not_terminated(
    account: Account, canceller: Canceller, region: str
) -> None:
    submission = account.submit((OTHER, OTHER, OTHER), opened=False)
    for index in (0, 1):
        line = sample_job(OTHER, index).model_copy(update={"backends": ("eks",)})
        account.ledger.open_job(submission, line, [OTHER])
    head = account.ledger.submission(submission)
    assert head
    watched: JobFacts = {"state": JobState.IN_PROGRESS, "batch_child": account.children.ids(head)[1]}
    account.ledger.record_job(job_key(1, submission=submission), watched)
    settings = {"regions": {HOME: None, OTHER: {"eks": {"cluster": "research"}}}}
    grid = GridSettings.model_validate(yaml.safe_load(account.deployment.grid.to_environment()) | settings)
    canceller = replace(canceller, deployment=replace(account.deployment, grid=grid))
    report = canceller.cancel(CancelTarget(submission=submission, by="Ada", region=region))
    assert [job.partition(":")[2] for job in report.batch_jobs] == ["0", "2"]
    assert list(report.errors) == [OTHER], "the cluster cannot be read, which does not prevent the rest"
    wait_until(lambda: account.child(submission, 2) == "FAILED")
    assert account.child(submission, 1) not in ("FAILED", "SUCCEEDED")
    for index in (0, 1):  # passes of other tests know no cluster
        account.ledger.record_job(job_key(index, submission=submission), {"state": JobState.STOPPED})


@pytest.mark.parametrize("opened", [True, False])
def test_cancelling_a_region_includes_lines_without_ledger_item(
    account: Account, canceller: Canceller, *, opened: bool
) -> None:
    submission = account.submit((HOME, OTHER), opened=opened)
    report = canceller.cancel(CancelTarget(submission=submission, region=OTHER, by="Ada"))
    assert [job.partition(":")[2] for job in report.batch_jobs] == ["1"]
    cancels = account.ledger.cancels(submission)
    assert is_cancelled(cancels, 1, OTHER)
    assert not is_cancelled(cancels, 0, HOME)


def test_the_intent_is_recorded_before_any_job_is_stopped(
    account: Account, canceller: Canceller, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = account.submit((HOME,))
    name = account.train(submission, 0)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SageMakerInventory, "stop", dies)
        with pytest.raises(KeyboardInterrupt):
            canceller.cancel(CancelTarget(submission=submission, by="Ada"))
    assert is_cancelled(account.ledger.cancels(submission), 0, HOME)
    assert name in account.reconciler().run_pass().stopped, "the reconciler completes an interrupted cancel"


def test_training_jobs_are_stopped_before_and_after_the_children_are_terminated(
    account: Account, canceller: Canceller, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = account.submit((HOME, OTHER))
    first = account.train(submission, 0)
    terminate, states = canceller.children.terminate, list[str]()

    def ends(job: str, reason: str) -> None:
        states.append(account.described(first)["TrainingJobStatus"])
        if len(states) == 1:  # its create request was in flight, and it is terminated before it reads the intent
            account.train(submission, 1, region=OTHER)
        terminate(job, reason)

    monkeypatch.setattr(canceller.children, "terminate", ends)
    report = canceller.cancel(CancelTarget(submission=submission, by="Ada"))
    assert states[0] in ("Stopping", "Stopped")
    assert report.training_jobs == [first, f"traingrid-{submission}-1-1"]
    assert account.ended(f"traingrid-{submission}-1-1", OTHER) == "Stopped"


def test_a_job_that_cannot_be_stopped_does_not_prevent_stopping_others(
    account: Account, canceller: Canceller, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = account.submit((HOME, OTHER))
    names = account.train(submission, 0), account.train(submission, 1, region=OTHER)
    stop, refused = SageMakerInventory.stop, ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Stop")

    def stops(self: SageMakerInventory, job: TrainingJob) -> bool:
        if job.name == names[0]:
            raise refused
        return stop(self, job)

    with monkeypatch.context() as patch:
        patch.setattr(SageMakerInventory, "stop", stops)
        report = canceller.cancel(CancelTarget(submission=submission, by="Ada"))
    assert (report.training_jobs, list(report.errors)) == ([names[1]], [names[0]])
    assert len(report.batch_jobs) == 1
    assert canceller.cancel(CancelTarget(submission=submission, by="Ada")).errors == {}


def test_a_cancel_gives_up_after_20_errors_of_batch(
    account: Account, canceller: Canceller, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = account.submit((HOME,) * 30)
    name, asked = "", list[str]()

    def lost(job: str, _reason: str) -> None:
        nonlocal name
        name = name or account.train(submission, 29)
        asked.append(job)
        raise EndpointConnectionError(endpoint_url="batch")

    monkeypatch.setattr(canceller.children, "terminate", lost)
    report = canceller.cancel(CancelTarget(submission=submission, region=HOME, by="Ada"))
    assert len(asked) == len(report.errors) == 20
    assert report.training_jobs == [name], "training jobs are stopped nevertheless"
    monkeypatch.undo()
    canceller.cancel(CancelTarget(submission=submission, by="Ada"))


def test_cancelling_an_unknown_target_fails_and_records_no_intent(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME,))
    with pytest.raises(TraingridError, match="no submission ffffffff"):
        canceller.cancel(CancelTarget(submission="ffffffff"))
    with pytest.raises(UsageError, match="no job with index 1"):
        canceller.cancel(CancelTarget(submission=submission, index=1))
    with pytest.raises(UsageError, match="not a training Region"):
        canceller.cancel(CancelTarget(submission=submission, region="mars"))
    assert account.ledger.cancels(submission) == {}


@pytest.mark.parametrize("region", ["", OTHER])
def test_lines_in_a_removed_region_can_be_cancelled_and_audited(
    account: Account, canceller: Canceller, region: str
) -> None:
    submission = account.submit((HOME, OTHER))
    name = account.train(submission, 1, region=OTHER)
    grid = account.deployment.grid
    smaller = grid.model_copy(update={"regions": {HOME: grid.regions[HOME]}})
    without = replace(account.deployment, grid=smaller)
    seen = read_world(without, submission=submission)
    assert (seen.regions, [job.name for job in seen.training_jobs]) == ([HOME, OTHER], [name])
    report = replace(canceller, deployment=without).cancel(CancelTarget(submission=submission, region=region, by="Ada"))
    assert report.training_jobs == [name]
    assert account.ended(name, OTHER) == "Stopped"
    wait_until(lambda: account.child(submission, 1) == "FAILED")
    account.reconciler().run_pass()
    with pytest.raises(UsageError, match="not a training Region"):
        replace(canceller, deployment=without).cancel(CancelTarget(submission=submission, region=OTHER))


@pytest.mark.usefixtures("commanded")
def test_the_command_reports_the_stopped_jobs(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    submission = account.submit((HOME,))
    name = account.train(submission, 0)
    assert cli.get_command(click.Context(cli), "cancel") is cancel
    cli.main(["--grid", str(Path("grid.yaml")), "cancel", submission, "--reason", "test"], standalone_mode=False)
    output = capsys.readouterr().out
    assert f"all of submission {submission} is cancelled" in output
    assert "asked 1 Batch job to end and 1 training job to stop;" in output
    assert name in output
    assert account.ledger.cancels(submission)["all"].by.startswith("arn:aws:")


@pytest.mark.usefixtures("commanded")
@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (KeyboardInterrupt(), 130, "Error: Interrupted."),
        (EndpointConnectionError(endpoint_url="batch"), 1, "Batch job "),
    ],
)
def test_the_command_reports_the_recorded_cancel_even_if_a_later_step_fails(
    *,
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    expected: str,
) -> None:
    submission = account.submit((HOME,))
    monkeypatch.setattr(sys, "argv", ["traingrid", "cancel", submission])

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(Children, "terminate", fails)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    found = capsys.readouterr()
    assert found.out.startswith(f"recorded: all of submission {submission} is cancelled\n")
    assert expected in found.err
    assert "The cancel is recorded: the reconciler stops the rest within two passes" in found.err
    assert "Check the credentials" not in found.err
