"""The models of a merge are copied between Regions with exactly the documented permissions of a user."""

import uuid
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import role
from tests.support.sample_job import sample_job
from traingrid import names
from traingrid.api import merge
from traingrid.api.control_plane import ControlPlane
from traingrid.api.submit_once import SubmittedOnce
from traingrid.aws.clients import client, renew
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.merge.copies import ModelCopy
from traingrid.merge.models import Model

PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
NEEDED = {
    "output": ("s3:GetObject",),
    "copies": ("s3:GetObject", "s3:PutObject"),
    "data bucket": ("s3:ListBucket",),
    "ledger": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
}
"""The permissions of `merge` in docs/permissions.md for copies of models below 512 MiB, by their resources."""
OF_PARTS = ("AbortMultipartUpload", "ListMultipartUploadParts", "ListBucketMultipartUploads")
"""Those for larger models, which S3 copies in parts."""
REFUSED = ("AccessDenied", "AccessDeniedException", "403", "Forbidden")


@pytest.fixture
def prepared(account: Account) -> merge.PreparedMerge:
    """A merge in the home Region of a model of the other one."""
    output = names.output_bucket("traingrid", account.deployment.account, OTHER)
    archive = S3Uri(output, "0a1b2c3d/0/output/model.tar.gz")
    s3 = client("s3", OTHER)
    if output not in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=output, CreateBucketConfiguration={"LocationConstraint": OTHER})
    s3.put_object(Bucket=archive.bucket, Key=archive.key, Body=b"model")
    target = S3Uri(account.data(HOME), f"merges/{uuid.uuid4().hex}/part-000-0a1b2c3d-0.tar.gz")
    head = CopyStore(OTHER).head(archive)
    assert head is not None
    model = Model(submission="0a1b2c3d", job=sample_job(OTHER), archive=archive)
    plane = ControlPlane(
        deployment=account.deployment,
        ledger=account.ledger,
        batch=None,  # type: ignore[arg-type]  # not called
        storage=account.storage,
    )
    copies = (ModelCopy(model=model, head=head, target=target),)
    return merge.PreparedMerge(copies=copies, job=sample_job(HOME), key="merges/0.jsonl", manifest="", plane=plane)


def copied(
    prepared: merge.PreparedMerge, cloud: LocalCloud, patch: pytest.MonkeyPatch, without: tuple[str, str] = ("", "")
) -> bytes:
    """Copy the model as a user with the documented permissions, perhaps without one of them, and return the copy."""
    (copy,), deployment = prepared.copies, prepared.plane.deployment
    where = {
        "output": f"arn:aws:s3:::{copy.model.archive.bucket}/*",
        "copies": f"arn:aws:s3:::{copy.target.bucket}/merges/*",
        "data bucket": f"arn:aws:s3:::{copy.target.bucket}",
        "ledger": f"arn:aws:dynamodb:{HOME}:{deployment.account}:table/{deployment.table}",
    }
    statements = [
        {"Effect": "Allow", "Action": kept, "Resource": where[kind]}
        for kind, actions in NEEDED.items()
        if (kept := [action for action in actions if (kind, action) != without])
    ]
    arn = role(client("iam"), "merger", "lambda.amazonaws.com", *statements)
    patch.setattr(merge, "submit_once", lambda *_: SubmittedOnce(submission="0badcafe"))
    with patch.context() as user:
        for name, value in cloud.environment_for(HOME, arn, {}).items():
            user.setenv(name, value)
        renew()
        try:
            prepared.run()
        finally:
            user.undo()
            renew()
    found: bytes = client("s3", HOME).get_object(Bucket=copy.target.bucket, Key=copy.target.key)["Body"].read()
    return found


def test_the_documented_permissions_copy_a_model_to_another_region(
    prepared: merge.PreparedMerge, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copied(prepared, cloud, monkeypatch) == b"model"


@pytest.mark.parametrize("without", [(kind, action) for kind, actions in NEEDED.items() for action in actions])
def test_each_of_them_is_needed(
    prepared: merge.PreparedMerge, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch, without: tuple[str, str]
) -> None:
    with pytest.raises(ClientError) as error:
        copied(prepared, cloud, monkeypatch, without)
    assert error.value.response["Error"]["Code"] in REFUSED


def test_the_page_names_them() -> None:
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith("| `merge`"))
    for action in {action.rpartition(":")[2] for actions in NEEDED.values() for action in actions} | {*OF_PARTS}:
        assert action in row
