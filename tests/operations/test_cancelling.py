"""Cancelling beside a Batch and a SageMaker that run: the intent is recorded, children and training jobs end."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.localcloud.compute import wait_until
from tests.operations.account import HOME, OTHER, Account
from traingrid.audit import audit
from traingrid.cancelling import Canceller, Wanted
from traingrid.cli.cancel import cancel
from traingrid.cli.main import cli
from traingrid.cli.status import ControlPlane
from traingrid.errors import TraingridError, UsageError
from traingrid.ledger import is_cancelled
from traingrid.world_reading import read_world


@pytest.fixture
def canceller(account: Account) -> Canceller:
    return Canceller(
        deployment=account.deployment, ledger=account.ledger, children=account.children, storage=account.storage
    )


def test_a_cancelled_submission_ends_wherever_its_jobs_were(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME, OTHER, HOME))
    running = account.train(submission, 0), account.train(submission, 1, region=OTHER)
    told = canceller.cancel(Wanted(submission=submission, by="Ada", reason="wrong data"))
    assert sorted(told.training_jobs) == sorted(running)
    assert (account.ended(running[0]), account.ended(running[1], OTHER)) == ("Stopped", "Stopped")
    wait_until(lambda: {account.child(submission, index) for index in range(3)} == {"FAILED"})
    account.reconciler().sweep()
    assert [account.line(submission, index)["state"] for index in range(3)] == ["Stopped"] * 3
    assert account.ledger.cancels(submission)["all"]["by"] == "Ada"
    assert audit(account.world(submission, at_rest=True)) == []


def test_doing_it_again_changes_nothing_and_is_no_error(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME,))
    name = account.train(submission, 0)
    wanted = Wanted(submission=submission, by="Ada")
    canceller.cancel(wanted)
    account.ended(name)
    assert canceller.cancel(wanted).training_jobs == []


def test_one_index_is_cancelled_and_the_others_go_on(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME, HOME))
    names = [account.train(submission, index) for index in (0, 1)]
    told = canceller.cancel(Wanted(submission=submission, index=1, by="Ada"))
    assert told.training_jobs == [names[1]]
    assert [job.partition(":")[2] for job in told.batch_jobs] == ["1"]
    assert account.ended(names[1]) == "Stopped"
    assert account.described(names[0])["TrainingJobStatus"] == "InProgress"
    wait_until(lambda: account.child(submission, 1) == "FAILED")
    assert account.child(submission, 0) not in ("FAILED", "SUCCEEDED")


@pytest.mark.parametrize("opened", [True, False])
def test_one_region_is_cancelled_also_for_lines_that_no_child_has_opened(
    account: Account, canceller: Canceller, *, opened: bool
) -> None:
    submission = account.submit((HOME, OTHER), opened=opened)
    told = canceller.cancel(Wanted(submission=submission, region=OTHER, by="Ada"))
    assert [job.partition(":")[2] for job in told.batch_jobs] == ["1"]
    cancels = account.ledger.cancels(submission)
    assert is_cancelled(cancels, 1, OTHER)
    assert not is_cancelled(cancels, 0, HOME)


def test_the_intent_is_there_before_anything_is_told_to_end(
    account: Account, canceller: Canceller, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = account.submit((HOME,))
    name = account.train(submission, 0)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(canceller.children, "terminate", dies)
    with pytest.raises(KeyboardInterrupt):
        canceller.cancel(Wanted(submission=submission, by="Ada"))
    assert is_cancelled(account.ledger.cancels(submission), 0, HOME)
    assert name in account.reconciler().sweep().stopped, "what the command no longer did, the reconciler does"


def test_what_does_not_exist_cannot_be_cancelled_and_leaves_no_intent(account: Account, canceller: Canceller) -> None:
    submission = account.submit((HOME,))
    with pytest.raises(TraingridError, match="no submission ffffffff"):
        canceller.cancel(Wanted(submission="ffffffff"))
    with pytest.raises(UsageError, match="no job of index 1"):
        canceller.cancel(Wanted(submission=submission, index=1))
    with pytest.raises(UsageError, match="not a training Region"):
        canceller.cancel(Wanted(submission=submission, region="mars"))
    assert account.ledger.cancels(submission) == {}


@pytest.mark.parametrize("region", ["", OTHER])
def test_a_region_that_the_grid_has_no_more_is_cancelled_and_audited_while_lines_live_there(
    account: Account, canceller: Canceller, region: str
) -> None:
    submission = account.submit((HOME, OTHER))
    name = account.train(submission, 1, region=OTHER)
    grid = account.deployment.grid
    smaller = grid.model_copy(update={"regions": {HOME: grid.regions[HOME]}})
    without = replace(account.deployment, grid=smaller)
    seen = read_world(without, submission=submission)
    assert (seen.regions, [job.name for job in seen.training_jobs]) == ([HOME, OTHER], [name])
    told = replace(canceller, deployment=without).cancel(Wanted(submission=submission, region=region, by="Ada"))
    assert told.training_jobs == [name]
    assert account.ended(name, OTHER) == "Stopped"
    wait_until(lambda: account.child(submission, 1) == "FAILED")
    account.reconciler().sweep()
    with pytest.raises(UsageError, match="not a training Region"):
        replace(canceller, deployment=without).cancel(Wanted(submission=submission, region=OTHER))


def test_the_command_says_what_it_did(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = account.submit((HOME,))
    name = account.train(submission, 0)
    plane = ControlPlane(
        deployment=account.deployment,
        ledger=account.ledger,
        batch=None,  # type: ignore[arg-type]
        storage=account.storage,
    )
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: plane)
    assert cancel.name in cli.commands
    cli.main(["--grid", str(Path("grid.yaml")), "cancel", submission, "--reason", "test"], standalone_mode=False)
    said = capsys.readouterr().out
    assert f"all of submission {submission} is cancelled" in said
    assert "1 Batch jobs told to end, 1 training jobs told to stop" in said
    assert name in said
    assert account.ledger.cancels(submission)["all"]["by"].startswith("arn:aws:")
