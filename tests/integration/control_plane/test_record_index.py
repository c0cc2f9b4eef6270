"""`traingrid data index` in a localcloud, with exactly its documented permissions, on an encrypted bucket."""

import json
import re

import pytest
from click.testing import CliRunner, Result

from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.control_plane.test_prune import PAGE, ROOT
from tests.integration.localcloud.compute import document, role
from tests.integration.localcloud.iam.test_encryption_keys import encrypt
from tests.unit.datasets.test_record_index import tfrecords
from traingrid.aws.clients import client, renew
from traingrid.cli.main import cli

BUCKET, OBJECTS, KEY = "bucket", "objects", "key"
NEEDED = (
    (BUCKET, "s3:ListBucket"),
    (OBJECTS, "s3:GetObject"),
    (OBJECTS, "s3:PutObject"),
    (KEY, "kms:Decrypt"),
    (KEY, "kms:GenerateDataKey"),
)


class Operator:
    """A user with some permissions on a bucket in another Region than the environment's."""

    def __init__(self, cloud: LocalCloud, account: Account, patch: pytest.MonkeyPatch) -> None:
        self.cloud, self.patch, self.bucket = cloud, patch, account.data(OTHER)
        policy = document({"Effect": "Allow", "Principal": {"AWS": ROOT}, "Action": "kms:*", "Resource": "*"})
        key = client("kms", OTHER).create_key(Policy=policy)["KeyMetadata"]["Arn"]
        encrypt(client("s3", OTHER), self.bucket, key)
        arn = f"arn:aws:s3:::{self.bucket}"
        self.resources = {BUCKET: arn, OBJECTS: f"{arn}/*", KEY: key}
        for number in range(40):
            client("s3", OTHER).put_object(Bucket=self.bucket, Key=f"train/{number}", Body=tfrecords(70_000, number))

    def index(self, without: tuple[str, str] = ("", "")) -> Result:
        statements = [
            {"Effect": "Allow", "Action": action, "Resource": self.resources[kind]}
            for kind, action in NEEDED
            if (kind, action) != without
        ]
        arn = role(client("iam"), "indexer", "lambda.amazonaws.com", *statements)
        with self.patch.context() as patch:
            for name, value in self.cloud.environment_for(HOME, arn, {}).items():
                patch.setenv(name, value)
            renew()
            result = CliRunner().invoke(cli, ["data", "index", f"s3://{self.bucket}/train", "--output", "json"])
        renew()
        return result


@pytest.fixture
def operator(cloud: LocalCloud, account: Account, monkeypatch: pytest.MonkeyPatch) -> Operator:
    return Operator(cloud, account, monkeypatch)


def test_the_documented_permissions_suffice_to_index(operator: Operator) -> None:
    result = operator.index()
    assert result.exception is None, result.exception
    (row,) = json.loads(result.stdout)
    assert (row["result"], row["files"], row["records"], row["requests"]) == ("written", 40, 80, 82)
    content = client("s3", OTHER).get_object(Bucket=operator.bucket, Key="train/_records.json")["Body"].read()
    assert {entry["records"] for entry in json.loads(content)["files"].values()} == {2}


@pytest.mark.parametrize("missing", NEEDED, ids="-".join)
def test_without_a_documented_permission_nothing_is_written(operator: Operator, missing: tuple[str, str]) -> None:
    s3 = client("s3", OTHER)
    s3.delete_object(Bucket=operator.bucket, Key="train/_records.json")
    result = operator.index(without=missing)
    assert result.exit_code != 0
    assert re.search("AccessDenied|403", str(result.exception)), result.exception
    assert "Contents" not in s3.list_objects_v2(Bucket=operator.bucket, Prefix="train/_")


def test_the_page_lists_the_permissions_to_index() -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| `data index` |")]
    listed = {word.rpartition(":")[2] for word in re.findall(r"`([\w:]+)`", row)}
    assert listed == {action.rpartition(":")[2] for _, action in NEEDED}
