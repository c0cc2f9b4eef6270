"""A grid with `encryption: kms` end to end: roles use its keys with IAM enforced, and then lack one permission."""

import json
import sys
from collections.abc import Iterator

import pytest

from localcloud.checkout import images
from localcloud.ecr import process_images
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import control_plane, two_regions
from tests.e2e.test_two_regions import ended, submit
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.datasets import register
from traingrid.ledger.moves import Moves

REGION, OTHER = "us-east-1", "eu-west-1"
GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
encryption: kms
moves: true
images:
  tiny: {repository: training, tag: tiny}
job:
  image: tiny
  instance_type: ml.m5.large
  volume_gb: 10
  max_runtime: 10m
"""
WRITES_A_MODEL = (
    "import os, pathlib; base = pathlib.Path(os.environ['SAGEMAKER_BASE_DIR']); "
    "(base / 'model' / 'm').write_bytes((base / 'input/data/train/a').read_bytes())"
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    image = process_images.ProcessImage(command=(sys.executable, "-c", WRITES_A_MODEL, "train"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "TRAINING", image)  # the deployment pushes it as the training image
        with two_regions(tmp_path_factory.mktemp("encrypted"), grid=GRID) as running:
            yield running


@pytest.fixture(scope="module")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    with control_plane(cloud) as made:
        bucket = names.data_bucket("traingrid", made.deployment.account, REGION)
        for channel in ("train", "validation"):
            client("s3", REGION).put_object(Bucket=bucket, Key=f"x/{channel}/a", Body=b"a")
        yield made


def line(plane: ControlPlane) -> str:
    return f"{REGION},s3://{names.data_bucket('traingrid', plane.deployment.account, REGION)}/x\n"


def test_a_line_trains_and_all_of_its_results_are_encrypted(plane: ControlPlane) -> None:
    submission = submit(plane, "encrypted.csv", line(plane))["submission"]
    (job,) = ended(plane, submission).jobs
    assert (job.state, job.reason) == ("Completed", "")
    s3, bucket = client("s3", REGION), names.output_bucket("traingrid", plane.deployment.account, REGION)
    (model,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
    key = s3.head_object(Bucket=bucket, Key=model["Key"])["SSEKMSKeyId"]
    alias = client("kms", REGION).describe_key(KeyId=names.data_key("traingrid"))["KeyMetadata"]
    assert key.rpartition("/")[2] == alias["KeyId"]
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


def test_an_encrypted_marker_registers_its_data(plane: ControlPlane) -> None:
    folder = S3Uri(names.data_bucket("traingrid", plane.deployment.account, REGION), "x")
    marker = b'{"dataset": "x", "version": "1", "bytes": 2, "objects": 2}'
    assert register(plane.deployment, REGION, folder, marker)["uri"] == str(folder)


def test_a_training_without_kms_encrypt_fails_when_its_model_is_uploaded(plane: ControlPlane) -> None:
    iam, role = client("iam", REGION), names.execution_role("traingrid", REGION)
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    kept = [found for found in document["Statement"] if "kms:Encrypt" not in found["Action"]]
    assert len(kept) == len(document["Statement"]) - 1
    weak = json.dumps({**document, "Statement": kept})
    iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=weak)
    submission = submit(plane, "no-encrypt.csv", line(plane))["submission"]
    (job,) = ended(plane, submission).jobs
    assert job.state == "Failed"
    assert "not authorized to perform: kms:Encrypt" in job.reason
