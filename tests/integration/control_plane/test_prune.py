"""`traingrid data prune` in a localcloud: a copy is kept while a job uses it, and deleted afterwards."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import ACCOUNT, document, role
from tests.integration.localcloud.iam.test_encryption_keys import encrypt
from tests.support.ledger_items import job_key
from tests.support.sample_job import sample_job
from traingrid.aws.clients import client, renew
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.job.state import JobState
from traingrid.ledger.facts import SubmissionFacts
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.submission.files import jobs_key, normalised

ROOT = f"arn:aws:iam::{ACCOUNT}:root"
PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_a_copy_is_deleted_once_its_job_has_ended(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(_file: Path) -> object:
        return account.deployment

    monkeypatch.setattr("traingrid.api.control_plane.find_deployment", found)
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


LEDGER, SUBMISSIONS = "ledger", "submissions"
NEEDED: dict[str, tuple[str, ...]] = {
    LEDGER: ("dynamodb:Query", "dynamodb:Scan", "dynamodb:GetItem", "dynamodb:UpdateItem"),
    SUBMISSIONS: ("s3:GetObject", "s3:GetObjectVersion"),
    "manifest bucket": ("s3:ListBucket",),
    "data buckets": ("s3:ListBucket",),
    "data": ("s3:GetObject",),
    "copy": ("s3:DeleteObject",),
    "key": ("kms:Decrypt",),
}
"""The permissions of `data prune` in docs/permissions.md, beside those of all commands, by their resources."""
SOMETIMES = ("dynamodb:GetItem", "s3:GetObjectVersion")
"""Needed only after a lost reply, and after a retry."""


def others(account: Account) -> None:
    """Record a submission that reads other data and has no line index."""
    lines = S3Uri(account.deployment.manifest_bucket, jobs_key("0badcafe"))
    account.storage.write(lines, normalised([sample_job(OTHER)])[0], "application/jsonl")
    facts: SubmissionFacts = {"manifest": "s3://b/manifests/x.csv", "version": "1", "jobs": 1}
    account.ledger.claim_submission("0badcafe", "test", facts)
    account.ledger.record_submitted("0badcafe", "gone")


def resources(account: Account, key: str) -> dict[str, list[str]]:
    """Return the ARNs of the resources in NEEDED."""
    manifests, data = account.deployment.manifest_bucket, [f"arn:aws:s3:::{account.data(one)}" for one in (HOME, OTHER)]
    return {
        LEDGER: [f"arn:aws:dynamodb:{HOME}:{account.deployment.account}:table/{account.deployment.table}"],
        SUBMISSIONS: [f"arn:aws:s3:::{manifests}/submissions/*"],
        "manifest bucket": [f"arn:aws:s3:::{manifests}"],
        "data buckets": data,
        "data": [f"{bucket}/*" for bucket in data],
        "copy": [f"{data[1]}/*"],
        "key": [key],
    }


class Operator:
    """A user with exactly the permissions of `data prune`, and an encrypted copy of a registered dataset."""

    def __init__(self, cloud: LocalCloud, account: Account, patch: pytest.MonkeyPatch) -> None:
        self.cloud, self.account, self.patch = cloud, account, patch
        self.target = f"s3://{account.data(OTHER)}/copies/day2"
        policy = document({"Effect": "Allow", "Principal": {"AWS": ROOT}, "Action": "kms:*", "Resource": "*"})
        self.key = client("kms", OTHER).create_key(Policy=policy)["KeyMetadata"]["Arn"]
        encrypt(client("s3", OTHER), account.data(OTHER), self.key)
        self.submission = account.submit((OTHER,), "pass")
        account.ledger.record_job(job_key(0, submission=self.submission), {"state": JobState.FAILED})

    def copied(self) -> None:
        """Record a copy with a marker, whose dataset has it as a replica."""
        source, marker = f"s3://{self.account.data(HOME)}/day2", b"{}"
        for name, body in (("train/a", b"first"), ("dataset.json", marker)):
            for region, folder in ((HOME, "day2"), (OTHER, "copies/day2")):
                client("s3", region).put_object(
                    Bucket=self.account.data(region), Key=f"{folder}/{name}", Body=body, ChecksumAlgorithm="CRC32"
                )
        moves = Moves(self.account.deployment.table, HOME)
        facts = {"source": source, "region": OTHER, "from_region": HOME, "job": f"{self.submission}/0"}
        item = MoveItem(target=self.target, state="copied", bytes=5, missing_bytes=5, **facts)  # type: ignore[arg-type]  # texts only
        present = moves.find(self.target)
        assert moves.change(present, item) if present else moves.add(item)

    def prune(self, without: tuple[str, str] = ("", "")) -> Result:
        """Run the command with the operator's permissions, perhaps without one of them."""
        where = resources(self.account, self.key)
        statements = [
            {"Effect": "Allow", "Action": kept, "Resource": where[kind]}
            for kind, actions in NEEDED.items()
            if (kept := [action for action in actions if (kind, action) != without])
        ]
        arn = role(client("iam"), "operator", "lambda.amazonaws.com", *statements)
        with self.patch.context() as patch:
            for name, value in self.cloud.environment_for(HOME, arn, {}).items():
                patch.setenv(name, value)
            renew()
            result = run("data", "prune", "--yes")
        renew()
        return result


@pytest.fixture
def operator(cloud: LocalCloud, account: Account, monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setattr("traingrid.api.control_plane.find_deployment", lambda _file: account.deployment)
    made = Operator(cloud, account, monkeypatch)
    made.copied()
    return made


def test_the_documented_permissions_suffice_to_prune(account: Account, operator: Operator) -> None:
    others(account)
    result = operator.prune()
    assert result.exception is None, result.exception
    assert "1 object, 5 bytes, deleted" in result.stdout
    assert client("s3", OTHER).list_objects_v2(Bucket=account.data(OTHER), Prefix="copies/day2/")["KeyCount"] == 0


@pytest.mark.parametrize(
    "missing",
    [(kind, action) for kind, actions in NEEDED.items() for action in actions if action not in SOMETIMES],
    ids="-".join,
)
def test_without_a_documented_permission_a_copy_is_not_pruned(
    account: Account, operator: Operator, missing: tuple[str, str]
) -> None:
    others(account)
    result = operator.prune(without=missing)
    assert result.exit_code != 0
    assert re.search("AccessDenied|403", str(result.exception)), result.exception


def test_the_page_lists_the_permissions_to_prune() -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| `data prune` |")]
    listed = {word.rpartition(":")[2] for word in re.findall(r"`([\w:]+)`", row)}
    assert listed == {action.rpartition(":")[2] for actions in NEEDED.values() for action in actions}
