"""Pause and resume: the commands, with a ledger in DynamoDB."""

import pytest

from tests.integration.control_plane.account import HOME, Account
from traingrid.cli.main import cli


@pytest.mark.usefixtures("commanded")
def test_a_pause_is_reported_with_its_reason_and_shown_by_every_status(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["pause", "--reason", "the bill"], standalone_mode=False)
    output = capsys.readouterr().out
    assert "Launching has been paused since 2" in output
    assert ": the bill. Start waiting jobs with: traingrid resume" in output
    assert "Running training jobs continue" in output
    pause = account.ledger.pause()
    assert pause is not None
    assert pause.by.startswith("arn:aws:")

    submission = account.submit((HOME,))
    cli.main(["status", submission], standalone_mode=False)
    assert "Launching has been paused since" in capsys.readouterr().out

    cli.main(["resume"], standalone_mode=False)
    assert account.ledger.pause() is None
    cli.main(["status", submission], standalone_mode=False)
    assert "paused" not in capsys.readouterr().out


@pytest.mark.usefixtures("commanded")
def test_the_reconciler_and_the_list_of_submissions_ignore_the_pause_item(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.ledger.set_launching({"by": "Ada", "reason": "the bill"}, allowed=False)
    cli.main(["status"], standalone_mode=False)
    assert "grid " not in capsys.readouterr().out.partition("submission")[2]
    account.reconciler().run_pass()
    assert account.ledger.pause() is not None
