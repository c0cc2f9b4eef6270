"""Enforcement for copies in S3: the caller needs permissions on the source, its key, and the target."""

import json
from collections.abc import Callable
from typing import Any

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import role
from tests.integration.localcloud.iam.test_encryption_keys import bucket, key, use
from tests.integration.localcloud.iam.test_iam import caller, refused
from tests.support.copies import CONTENT, SMALL
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.transfers.folder_copy import FolderCopy
from traingrid.transfers.listing import Folders
from traingrid.transfers.object_copy import ObjectCopy, Sizes

__all__ = ["bucket", "key"]


def on(where: str, *actions: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": f"arn:aws:s3:::{where}"}


def test_a_copy_requires_permissions_on_its_source_and_on_the_sources_key(
    cloud: LocalCloud, client: Callable[..., Any], key: str, bucket: str
) -> None:
    client("s3").create_bucket(Bucket="copies")
    writes, reads = on("copies/*", "s3:PutObject"), on(f"{bucket}/*", "s3:GetObject")
    request: dict[str, Any] = {"Bucket": "copies", "Key": "y", "CopySource": {"Bucket": bucket, "Key": "x"}}
    roles: dict[str, list[Any]] = {
        f"s3:GetObject on resource: arn:aws:s3:::{bucket}/x": [writes],
        f"kms:Decrypt on resource: {key}": [writes, reads],
        "s3:PutObject on resource: arn:aws:s3:::copies/y": [reads, use(key, "s3", "kms:Decrypt")],
    }
    for number, (missing, policies) in enumerate(roles.items()):
        s3 = caller(cloud, role(client("iam"), f"copies-{number}", "lambda.amazonaws.com", *policies))("s3")
        upload = client("s3").create_multipart_upload(Bucket="copies", Key="y")["UploadId"]
        part = {**request, "UploadId": upload, "PartNumber": 1}
        for call in (lambda s3=s3: s3.copy_object(**request), lambda s3=s3, part=part: s3.upload_part_copy(**part)):
            code, message = refused(call)
            assert (code, missing in message) == ("AccessDenied", True), message
    allowed = role(client("iam"), "copies-all", "lambda.amazonaws.com", writes, reads, use(key, "s3", "kms:Decrypt"))
    caller(cloud, allowed)("s3").copy_object(**request)
    assert client("s3").get_object(Bucket="copies", Key="y")["Body"].read() == b"1"


def test_a_folder_is_copied_with_exactly_a_childs_permissions(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    """The statements are those of `let_copy_data` in stacks/child_permissions.py."""
    source, target = S3Uri("moves-from", "day 1/ä"), S3Uri("moves-to", "copies/day1")
    s3 = client("s3")
    for name in (source.bucket, target.bucket):
        s3.create_bucket(Bucket=name)
    large = {"train/large": b"0123456789" * 600_000}  # two parts of 5 MiB, S3's minimum
    for name, body in {**CONTENT, **large, "dataset.json": json.dumps({}).encode()}.items():
        s3.put_object(Bucket=source.bucket, Key=f"{source.key}/{name}", Body=body)
    statements = [
        on("moves-from/*", "s3:GetObject"),
        on("moves-to/*", "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"),
        on("moves-to", "s3:ListBucketMultipartUploads", "s3:ListBucket"),
        on("moves-from", "s3:ListBucket"),
    ]
    made = caller(cloud, role(client("iam"), "moves", "lambda.amazonaws.com", *statements))
    store = CopyStore("us-east-1", lambda service, *_: made(service))
    folders = Folders(source=source, source_store=store, target=target, target_store=store)
    sizes = Sizes(in_one_piece=SMALL.part + 1024**2, part=5 * 1024**2)
    copy = FolderCopy(folders=folders, objects=ObjectCopy(source_store=store, target_store=store, sizes=sizes))
    survey = folders.survey()
    copy.start()
    while not copy.wait(1.0):
        pass
    copy.finish(survey)
    assert copy.progress().verified == {"checksum": 4}
    head = s3.head_object(Bucket=target.bucket, Key=f"{target.key}/train/large")
    assert head["ETag"].endswith('-2"')
    assert s3.head_object(Bucket=target.bucket, Key=f"{target.key}/dataset.json")


def test_a_condition_on_the_source_of_copies_applies_to_objects_and_parts(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    """The key is the header's value: https://docs.aws.amazon.com/AmazonS3/latest/userguide/amazon-s3-policy-keys.html."""
    for name in ("may-leave", "must-stay", "limited"):
        client("s3").create_bucket(Bucket=name)
        client("s3").put_object(Bucket=name, Key="x", Body=b"1")
    only = {"StringLikeIfExists": {"s3:x-amz-copy-source": "may-leave/*"}}
    writes, reads = on("limited/*", "s3:PutObject") | {"Condition": only}, on("*", "s3:GetObject")
    s3 = caller(cloud, role(client("iam"), "limited", "lambda.amazonaws.com", writes, reads))("s3")
    upload = s3.create_multipart_upload(Bucket="limited", Key="y")["UploadId"]
    part: dict[str, Any] = {"Bucket": "limited", "Key": "y", "UploadId": upload, "PartNumber": 1}
    for source in ({"Bucket": "must-stay", "Key": "x"}, "must-stay/x", "/must-stay/x", "/may-leave/x", "may-leave%2Fx"):
        for call in (
            lambda source=source: s3.copy_object(Bucket="limited", Key="z", CopySource=source),
            lambda source=source: s3.upload_part_copy(**part, CopySource=source),
        ):
            code, message = refused(call)
            assert (code, "s3:PutObject on resource: arn:aws:s3:::limited/" in message) == ("AccessDenied", True)
    s3.copy_object(Bucket="limited", Key="z", CopySource={"Bucket": "may-leave", "Key": "x"})
    copied = s3.upload_part_copy(**part, CopySource="may-leave/x")["CopyPartResult"]["ETag"]
    whole = {"Parts": [{"PartNumber": 1, "ETag": copied}]}
    s3.complete_multipart_upload(Bucket="limited", Key="y", UploadId=upload, MultipartUpload=whole)
    s3.put_object(Bucket="limited", Key="mine", Body=b"2")
    assert {entry["Key"] for entry in client("s3").list_objects_v2(Bucket="limited")["Contents"]} == {
        "x",
        *"yz",
        "mine",
    }
