"""`traingrid data prune`, and the copies in `traingrid audit`, with moto's S3 and DynamoDB."""

import json
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from tests.support.copies import CONTENT, SOURCE, SOURCE_REGION, TARGET, TARGET_REGION, stored, upload
from tests.support.sample_job import sample_job
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli import audit as audit_command
from traingrid.cli.main import cli
from traingrid.deploy.prices import GIGABYTE
from traingrid.grid.deployment import Deployment
from traingrid.ledger.damage import intact
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.submission.files import jobs_key, normalised

SUBMISSION = "0123abcd"


@pytest.fixture
def moves(aws: None, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Moves:
    monkeypatch.setattr("traingrid.api.control_plane.find_deployment", lambda _file: deployment)
    s3: Any = boto3.client("s3", SOURCE_REGION)
    s3.create_bucket(Bucket=SOURCE.bucket)
    s3.create_bucket(Bucket=TARGET.bucket, CreateBucketConfiguration={"LocationConstraint": TARGET_REGION})
    upload(s3, CONTENT)
    upload(s3, CONTENT, TARGET)
    return Moves(deployment.table)


def add(moves: Moves, target: S3Uri = TARGET, size: int = 100 * GIGABYTE, job: str = f"{SUBMISSION}/0") -> None:
    facts = {"source": str(SOURCE), "region": TARGET_REGION, "from_region": SOURCE_REGION}
    moves.add(MoveItem(target=str(target), state="copied", job=job, bytes=size, missing_bytes=size, **facts))  # type: ignore[arg-type]  # texts only


def content() -> dict[str, bytes]:
    return stored(boto3.client("s3", TARGET_REGION))


def prune(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli, ["data", "prune", *words], input=answer)


def submit(deployment: Deployment) -> bool:
    """Submit a job that needs the copy; return True, as a confirmation does."""
    job = sample_job(TARGET_REGION).model_copy(update={"copy_from": str(SOURCE), "copy_to": str(TARGET)})
    target = S3Uri(deployment.manifest_bucket, jobs_key(SUBMISSION))
    Storage().write(target, normalised([job])[0], "application/x")
    Ledger(deployment.table).claim_submission(SUBMISSION, "test", {"manifest": "s3://m/a.csv", "jobs": 1})
    return True


def test_copies_are_deleted_after_the_list_and_a_confirmation(moves: Moves) -> None:
    add(moves)
    output = prune(answer="y\n").stdout
    (row,) = [line for line in output.splitlines() if line.startswith(f"{TARGET} ")]
    assert row.split()[1:4] == [TARGET_REGION, "100.00", "2.30"]
    assert "1 unneeded copy, 100.00 GB, $2.30 a month at the list price of us-east-1" in output
    assert output.endswith(f"{TARGET}: 3 objects, 59 bytes, deleted\n")
    assert content() == {}
    assert prune().stdout == "no unneeded copies\n"


@pytest.mark.parametrize(("answer", "code"), [("n\n", 0), ("", 1)])
def test_nothing_is_deleted_without_a_confirmation(moves: Moves, answer: str, code: int) -> None:
    add(moves)
    result = prune(answer=answer)
    assert (result.exit_code, content()) == (code, CONTENT)
    (item,) = intact(moves.all())
    assert item.state == "copied"


def test_a_submission_or_a_folder_limits_the_copies(moves: Moves) -> None:
    add(moves)
    add(moves, TARGET / "other", job="fedc3210/1")
    assert "There is no unneeded copy of submission 11111111." in str(prune("--submission", "11111111").exception)
    assert "There is no unneeded copy in s3://x/y." in str(prune("s3://x/y").exception)
    assert str(TARGET / "other") not in prune("--submission", SUBMISSION, answer="n").stdout
    assert "1 unneeded copy" in prune(f"{TARGET}/", answer="n").stdout
    (row,) = json.loads(prune(f"{TARGET}/", "--output", "json", answer="n").stdout)
    assert (row["target"], row["bytes"], row["result"]) == (str(TARGET), 100 * GIGABYTE, "listed")
    assert "2 unneeded copies" in prune(answer="n").stdout


def test_a_copy_that_an_open_job_needs_is_not_listed(moves: Moves, deployment: Deployment) -> None:
    add(moves)
    submit(deployment)
    assert prune("--yes").stdout == "no unneeded copies\n"
    assert content() == CONTENT


def test_a_job_that_is_submitted_after_the_list_keeps_its_copy(
    moves: Moves, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(moves)
    monkeypatch.setattr("traingrid.cli.prune._is_confirmed", lambda _output: submit(deployment))
    result = prune()
    assert f"{TARGET}: kept, because job 0 of {SUBMISSION} needs it now" in result.stdout
    assert "1 of 1 copies could not be removed" in str(result.exception)
    assert content() == CONTENT


def test_a_copy_whose_item_is_damaged_after_the_list_is_named_and_the_others_are_removed(
    moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = S3Uri(TARGET.bucket, "another-folder")
    add(moves, other)
    add(moves)

    def damage(_output: str) -> bool:
        moves._table.put({"submission": "moves", "item": str(other), "source": 7})
        return True

    monkeypatch.setattr("traingrid.cli.prune._is_confirmed", damage)
    result = prune()
    assert f"{other}: not removed. The ledger's item (submission 'moves', item '{other}')" in result.stdout
    assert "1 of 2 copies could not be removed" in str(result.exception)
    assert content() == {}


def test_other_objects_of_the_folder_are_named(moves: Moves) -> None:
    add(moves)
    upload(boto3.client("s3", TARGET_REGION), {"notes.txt": b"mine"}, TARGET)
    assert f"{TARGET}: kept 1 object that it did not write, or that {SOURCE} lacks: notes.txt" in prune("--yes").stdout
    assert content() == {"notes.txt": b"mine"}


def test_the_rows_for_programs_have_the_result_of_each_copy(moves: Moves) -> None:
    add(moves)
    (row,) = json.loads(prune("--yes", "--output", "json").stdout)
    assert (row["result"], row["deleted"], row["kept"]) == ("pruned", 3, 0)


def test_the_audit_lists_unneeded_copies_with_their_cost(moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    world = type("World", (), {"submissions": {}, "regions": [], "training_jobs": [], "lines": {}})()
    monkeypatch.setattr(audit_command, "read_world", lambda *_, **__: world)
    monkeypatch.setattr(audit_command, "violations_of", lambda _world: [])
    assert "copy" not in CliRunner().invoke(cli, ["audit"]).stdout
    add(moves)
    result = CliRunner().invoke(cli, ["audit"])
    sentence = "1 unneeded copy, 100.00 GB, $2.30 a month at the list price of us-east-1."
    assert f"{sentence} Remove them with: traingrid data prune\n" in result.stdout
    assert (result.exit_code, content()) == (0, CONTENT)
