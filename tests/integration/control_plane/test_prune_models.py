"""`traingrid data prune` of a copy of a model in a localcloud, with exactly its documented permissions."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import ACCOUNT, document, role
from tests.integration.localcloud.iam.test_encryption_keys import encrypt
from traingrid import names
from traingrid.aws.clients import client, renew
from traingrid.cli.main import cli
from traingrid.ledger.moves import MoveItem, Moves

ROOT = f"arn:aws:iam::{ACCOUNT}:root"
PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
MODEL = "89abcdef/0/traingrid-89abcdef-0-1/output/model.tar.gz"
COPY = f"initial-models/{MODEL}"
LEDGER, MODELS, KEY = "ledger", "*/output/model.tar.gz", "key"
NEEDED: dict[str, tuple[str, ...]] = {
    LEDGER: ("dynamodb:Query", "dynamodb:Scan", "dynamodb:UpdateItem"),
    "output buckets": ("s3:ListBucket",),
    MODELS: ("s3:GetObject",),
    "initial-models/*/output/model.tar.gz": ("s3:DeleteObject",),
    KEY: ("kms:Decrypt",),
}
"""The permissions of `data prune` in docs/permissions.md that a copy of a model needs, by their resources."""


def upload_in_parts(bucket: str, key: str) -> None:
    """Upload the model with another ETag than in one piece, so that its checksum is compared."""
    s3, object_key = client("s3", OTHER), {"Bucket": bucket, "Key": key}
    begun = s3.create_multipart_upload(**object_key, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    upload = {**object_key, "UploadId": begun["UploadId"]}
    part = s3.upload_part(**upload, PartNumber=1, Body=b"model", ChecksumAlgorithm="CRC32")
    listed = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": listed}, ChecksumType="FULL_OBJECT")


class User:
    """A user with exactly these permissions, and a copy of a model."""

    def __init__(self, cloud: LocalCloud, account: Account, patch: pytest.MonkeyPatch) -> None:
        self.cloud, self.account, self.patch = cloud, account, patch
        self.buckets = {
            region: names.output_bucket("traingrid", account.deployment.account, region) for region in (HOME, OTHER)
        }
        policy = document({"Effect": "Allow", "Principal": {"AWS": ROOT}, "Action": "kms:*", "Resource": "*"})
        self.key = client("kms", OTHER).create_key(Policy=policy)["KeyMetadata"]["Arn"]
        self.copied()

    def copied(self) -> None:
        for region, bucket in self.buckets.items():
            s3 = client("s3", region)
            place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            if bucket not in {one["Name"] for one in s3.list_buckets()["Buckets"]}:
                s3.create_bucket(Bucket=bucket, **place)
            key = MODEL if region == HOME else COPY
            if region == HOME:
                s3.put_object(Bucket=bucket, Key=key, Body=b"model", ChecksumAlgorithm="CRC32")
            else:
                encrypt(s3, bucket, self.key)
                upload_in_parts(bucket, key)
        client("s3", OTHER).put_object(Bucket=self.buckets[OTHER], Key=COPY.replace("model.tar", "x.tar"), Body=b"x")
        source, target = (
            f"s3://{bucket}/{key.removesuffix('/model.tar.gz')}"
            for bucket, key in ((self.buckets[HOME], MODEL), (self.buckets[OTHER], COPY))
        )
        moves = Moves(self.account.deployment.table, HOME)
        facts = {"source": source, "region": OTHER, "from_region": HOME, "job": "0123abcd/0"}
        item = MoveItem(target=target, state="copied", bytes=5, missing_bytes=5, **facts)  # type: ignore[arg-type]  # texts only
        present = moves.find(target)
        assert moves.change(present, item) if present else moves.add(item)

    def resources(self, kind: str) -> list[str]:
        buckets = [f"arn:aws:s3:::{bucket}" for bucket in self.buckets.values()]
        if kind == LEDGER:
            return [f"arn:aws:dynamodb:{HOME}:{self.account.deployment.account}:table/{self.account.deployment.table}"]
        if kind == KEY:
            return [self.key]
        if kind == "output buckets":
            return buckets
        return [f"{bucket}/{kind}" for bucket in (buckets if kind == MODELS else buckets[1:])]

    def prune(self, without: tuple[str, str] = ("", "")) -> Result:
        """Run the command as the user, perhaps without one of the permissions."""
        statements = [
            {"Effect": "Allow", "Action": kept, "Resource": self.resources(kind)}
            for kind, actions in NEEDED.items()
            if (kept := [action for action in actions if (kind, action) != without])
        ]
        arn = role(client("iam"), "pruner", "lambda.amazonaws.com", *statements)
        with self.patch.context() as patch:
            for name, value in self.cloud.environment_for(HOME, arn, {}).items():
                patch.setenv(name, value)
            renew()
            result = CliRunner().invoke(cli, ["data", "prune", "--yes"])
        renew()
        return result


@pytest.fixture
def user(cloud: LocalCloud, account: Account, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setattr("traingrid.api.control_plane.find_deployment", lambda _file: account.deployment)
    return User(cloud, account, monkeypatch)


def test_the_documented_permissions_suffice_for_a_copy_of_a_model(user: User) -> None:
    result = user.prune()
    assert result.exception is None, result.exception
    assert "1 object, 5 bytes, deleted" in result.stdout
    listed = client("s3", OTHER).list_objects_v2(Bucket=user.buckets[OTHER], Prefix="initial-models/")
    assert [entry["Key"] for entry in listed["Contents"]] == [COPY.replace("model.tar", "x.tar")]


@pytest.mark.parametrize("missing", [(kind, action) for kind, actions in NEEDED.items() for action in actions])
def test_without_one_of_them_the_copy_is_kept(user: User, missing: tuple[str, str]) -> None:
    result = user.prune(without=missing)
    assert result.exit_code != 0
    assert re.search("AccessDenied|403", str(result.exception)), result.exception


def test_the_page_names_the_resources() -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| `data prune` |")]
    assert all(f"`{resource}`" in row for resource in NEEDED if "*" in resource)
    assert "`s3:ListBucket` on the output buckets of source and copy" in row
