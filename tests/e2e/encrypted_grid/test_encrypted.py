"""A grid with `encryption: kms` and a residency, end to end, with IAM enforced.

Roles use its keys, and then lack one permission. The role of children copies no data out of the residency.
"""

from typing import Any

import boto3
from botocore.exceptions import ClientError

from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import forbidden
from tests.e2e.submissions import ended, submit
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.datasets import register
from traingrid.ledger.moves import Moves
from traingrid.transfers.object_copy import ObjectCopy, Sizes

REGION, OTHER = "us-east-1", "eu-west-1"


def line(plane: ControlPlane) -> str:
    return f"{REGION},s3://{names.data_bucket('traingrid', plane.deployment.account, REGION)}/x\n"


def test_a_line_trains_and_all_of_its_results_are_encrypted(plane: ControlPlane) -> None:
    submission = submit(plane, "encrypted.csv", line(plane))["submission"]
    (job,) = ended(plane, submission).jobs
    assert (job.state, job.reason) == ("Completed", "")
    s3, bucket = client("s3", REGION), names.output_bucket("traingrid", plane.deployment.account, REGION)
    written = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix=f"{submission}/")["Contents"]]
    assert sorted(key.rpartition("/")[2].partition(".")[2] for key in written) == ["jsonl", "manifest", "tar.gz"]
    keys = {s3.head_object(Bucket=bucket, Key=key)["SSEKMSKeyId"].rpartition("/")[2] for key in written}
    alias = client("kms", REGION).describe_key(KeyId=names.data_key("traingrid"))["KeyMetadata"]
    assert keys == {alias["KeyId"]}
    table = client("dynamodb", REGION).describe_table(TableName=plane.deployment.table)["Table"]
    assert "key/" in table["SSEDescription"]["KMSMasterKeyArn"]


def test_data_is_copied_from_the_key_of_one_region_to_that_of_another(plane: ControlPlane) -> None:
    account = plane.deployment.account
    source, target = (S3Uri(names.data_bucket("traingrid", account, region), "x") for region in (REGION, OTHER))
    manifest = f"region,s3_uri,copy_from\n{OTHER},{target},{source}\n"
    (job,) = ended(plane, submit(plane, "copied.csv", manifest)["submission"]).jobs
    assert (job.state, job.reason) == ("Completed", "")
    key = client("s3", OTHER).head_object(Bucket=target.bucket, Key=f"{target.key}/train/a")["SSEKMSKeyId"]
    alias = client("kms", OTHER).describe_key(KeyId=names.data_key("traingrid"))["KeyMetadata"]
    assert key.rpartition("/")[2] == alias["KeyId"]
    move = Moves(plane.deployment.table, REGION).find(str(target))
    assert move is not None
    assert (move.state, move.verified) == ("copied", {"checksum": 2})


def test_a_model_is_copied_from_the_key_of_one_region_to_that_of_another(plane: ControlPlane) -> None:
    account = plane.deployment.account
    first = submit(plane, "first.csv", line(plane))["submission"]
    (trained,) = ended(plane, first).jobs
    data, bucket = (named("traingrid", account, OTHER) for named in (names.data_bucket, names.output_bucket))
    for channel in ("train", "validation"):
        client("s3", OTHER).put_object(Bucket=data, Key=f"y/{channel}/a", Body=b"a")
    manifest = f"region,s3_uri,init_from\n{OTHER},s3://{data}/y,{first}/0\n"
    (job,) = ended(plane, submit(plane, "begins.csv", manifest)["submission"]).jobs
    assert (job.state, job.reason) == ("Completed", "")
    copy = f"{names.INITIAL_MODEL_PREFIX}{S3Uri.parse(trained.artifact).key}"
    key = client("s3", OTHER).head_object(Bucket=bucket, Key=copy)["SSEKMSKeyId"]
    alias = client("kms", OTHER).describe_key(KeyId=names.data_key("traingrid"))["KeyMetadata"]
    assert key.rpartition("/")[2] == alias["KeyId"]


MIB = 1024**2
IN_PARTS = Sizes(in_one_piece=5 * MIB, part=5 * MIB)


def childs_store(cloud: LocalCloud, plane: ControlPlane, region: str) -> CopyStore:
    """Return the store of a Region with the credentials of a Batch child."""
    definition = plane.deployment.job_definition
    (found,) = client("batch", REGION).describe_job_definitions(jobDefinitions=[definition])["jobDefinitions"]
    child = cloud.environment_for(region, found["containerProperties"]["jobRoleArn"], {})
    session: Any = boto3.Session(
        child["AWS_ACCESS_KEY_ID"], child["AWS_SECRET_ACCESS_KEY"], child["AWS_SESSION_TOKEN"], region_name=region
    )
    return CopyStore(region, lambda service, *_: session.client(service, endpoint_url=cloud.endpoint_url))


def copied_by_a_child(cloud: LocalCloud, plane: ControlPlane, source_region: str, target_region: str) -> list[str]:
    """Copy a small and a large object as a child does, without intake and planner; return the errors of S3."""
    source, target = (
        S3Uri(names.data_bucket("traingrid", plane.deployment.account, region), folder)
        for region, folder in ((source_region, "stays"), (target_region, "copies/stays"))
    )
    stores = [childs_store(cloud, plane, region) for region in (source_region, target_region)]
    objects = ObjectCopy(source_store=stores[0], target_store=stores[1], sizes=IN_PARTS, target_has_kms=True)
    refused = []
    for name, size in (("small", 10), ("large", 6 * MIB)):
        client("s3", source_region).put_object(Bucket=source.bucket, Key=(source / name).key, Body=b"1" * size)
        head = stores[0].head(source / name)
        assert head is not None
        try:
            objects.copy(source / name, head.etag, target / name, lambda: False)
        except ClientError as error:
            refused.append(f"{error.operation_name}: {error.response['Error']['Message']}")
    listed = client("s3", target_region).list_objects_v2(Bucket=target.bucket, Prefix=f"{target.key}/")
    assert listed["KeyCount"] == 2 - len(refused)
    for entry in listed.get("Contents", []):
        client("s3", target_region).delete_object(Bucket=target.bucket, Key=entry["Key"])
    return refused


def test_the_role_of_children_copies_no_data_out_of_the_residency_of_a_region(
    cloud: LocalCloud, plane: ControlPlane
) -> None:
    assert copied_by_a_child(cloud, plane, REGION, OTHER) == []
    assert copied_by_a_child(cloud, plane, "us-west-2", REGION) == []
    small, large = copied_by_a_child(cloud, plane, OTHER, REGION)
    bucket = names.data_bucket("traingrid", plane.deployment.account, REGION)
    for message, operation in ((small, "CopyObject"), (large, "UploadPartCopy")):
        assert message.startswith(f"{operation}: ")
        assert f"is not authorized to perform: s3:PutObject on resource: arn:aws:s3:::{bucket}/copies" in message


def test_the_intake_refuses_to_copy_data_out_of_the_residency_of_a_region(plane: ControlPlane) -> None:
    account = plane.deployment.account
    source, target = (S3Uri(names.data_bucket("traingrid", account, region), "x") for region in (OTHER, REGION))
    report = submit(plane, "out.csv", f"region,s3_uri,copy_from\n{REGION},{target},{source}\n")
    assert report["state"] == "rejected"
    (error,) = report["errors"]
    assert error["reason"] == f"grid.yaml allows the data of {OTHER} only in eu, not in {REGION}"


def test_an_encrypted_marker_registers_its_data(plane: ControlPlane) -> None:
    folder = S3Uri(names.data_bucket("traingrid", plane.deployment.account, REGION), "x")
    marker = b'{"dataset": "x", "version": "1", "bytes": 2, "objects": 2}'
    assert register(plane.deployment, REGION, folder, marker)["uri"] == str(folder)


def test_a_training_without_kms_encrypt_fails_when_its_model_is_uploaded(plane: ControlPlane) -> None:
    with forbidden(names.execution_role("traingrid", REGION), "kms:Encrypt"):
        submission = submit(plane, "no-encrypt.csv", line(plane))["submission"]
        (job,) = ended(plane, submission).jobs
    assert job.state == "Failed"
    assert "not authorized to perform: kms:Encrypt" in job.reason
