"""`traingrid data prune` in a localcloud: a copy is kept while a job uses it, and deleted afterwards."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.support.ledger_items import job_key
from traingrid.aws.clients import client
from traingrid.cli.main import cli
from traingrid.job.state import JobState
from traingrid.ledger.moves import MoveItem, Moves


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_a_copy_is_deleted_once_its_job_has_ended(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(_file: Path) -> object:
        return account.deployment

    for command in ("audit", "prune"):
        monkeypatch.setattr(f"traingrid.cli.{command}.find_deployment", found)
    s3, target = client("s3", OTHER), f"s3://{account.data(OTHER)}/x"  # the folder that the jobs of `submit` read
    client("s3", HOME).put_object(Bucket=account.data(HOME), Key="day1/train/a", Body=b"first")
    for key, body in (("x/train/a", b"first"), ("x/notes", b"of a user")):
        s3.put_object(Bucket=account.data(OTHER), Key=key, Body=body)
    submission = account.submit((OTHER,), "pass")
    facts = {"source": f"s3://{account.data(HOME)}/day1", "region": OTHER, "from_region": HOME}
    copied = MoveItem(target=target, state="copied", job=f"{submission}/0", bytes=5, missing_bytes=5, **facts)  # type: ignore[arg-type]  # texts only
    assert Moves(account.deployment.table, HOME).add(copied)
    assert run("data", "prune", "--yes").stdout == "no unneeded copies\n"
    account.ledger.record_job(job_key(0, submission=submission), {"state": JobState.FAILED})
    assert "1 unneeded copy, 0.00 GB" in run("audit").stdout
    result = run("data", "prune", "--submission", submission, "--yes")
    assert f"{target}: 1 object, 5 bytes, deleted" in result.stdout
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=account.data(OTHER), Prefix="x/")["Contents"]]
    assert keys == ["x/notes"]
    assert run("data", "prune").stdout == "no unneeded copies\n"
