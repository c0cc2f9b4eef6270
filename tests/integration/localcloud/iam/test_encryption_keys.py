"""Enforcement for KMS keys: permissions to use a key, the calling service, and the key policy."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, document, role
from tests.integration.localcloud.iam.test_iam import caller, refused
from tests.integration.localcloud.training_side import SageMaker

DATA: Mapping[str, Any] = {"Effect": "Allow", "Action": ["s3:*", "sqs:*", "dynamodb:*"], "Resource": "*"}


def use(key: str, service: str, *actions: str) -> Mapping[str, Any]:
    via = {"StringEquals": {"kms:ViaService": f"{service}.us-east-1.amazonaws.com"}}
    return {"Effect": "Allow", "Action": list(actions), "Resource": key, "Condition": via}


@pytest.fixture
def key(client: Callable[..., Any]) -> str:
    """Create a key whose policy delegates to its account, like the keys of the stacks."""
    account = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "kms:*"}
    policy = document({**account, "Resource": "*"})
    return str(client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"])


def encrypt(s3: Any, bucket: str, key: str) -> None:
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules)


@pytest.fixture
def bucket(client: Callable[..., Any], key: str) -> str:
    s3 = client("s3")
    name = f"encrypted-{key[-12:]}"
    s3.create_bucket(Bucket=name)
    encrypt(s3, name, key)
    s3.put_object(Bucket=name, Key="x", Body=b"1")
    return name


def test_an_encrypted_object_requires_a_permission_on_its_key_via_s3(
    cloud: LocalCloud, client: Callable[..., Any], key: str, bucket: str
) -> None:
    without = caller(cloud, role(client("iam"), "without-key", "lambda.amazonaws.com", DATA))("s3")
    other = use(key, "sqs", "kms:Decrypt", "kms:GenerateDataKey")
    wrong = caller(cloud, role(client("iam"), "wrong-service", "lambda.amazonaws.com", DATA, other))("s3")
    for s3 in (without, wrong):
        for action, call in (
            ("kms:Decrypt", lambda s3=s3: s3.get_object(Bucket=bucket, Key="x")),
            ("kms:GenerateDataKey", lambda s3=s3: s3.put_object(Bucket=bucket, Key="y", Body=b"2")),
        ):
            code, message = refused(call)
            assert (code, f"{action} on resource: {key}" in message) == ("AccessDenied", True)
    both = use(key, "s3", "kms:Decrypt", "kms:GenerateDataKey")
    s3 = caller(cloud, role(client("iam"), "with-key", "lambda.amazonaws.com", DATA, both))("s3")
    s3.put_object(Bucket=bucket, Key="y", Body=b"2")
    assert s3.get_object(Bucket=bucket, Key="y")["Body"].read() == b"2"
    reader = caller(
        cloud, role(client("iam"), "reads-only", "lambda.amazonaws.com", DATA, use(key, "s3", "kms:Decrypt"))
    )("s3")
    assert reader.get_object(Bucket=bucket, Key="y")["Body"].read() == b"2"
    assert "kms:GenerateDataKey" in refused(lambda: reader.put_object(Bucket=bucket, Key="z", Body=b"3"))[1]


def test_the_key_policy_must_also_allow_the_action(
    cloud: LocalCloud, client: Callable[..., Any], key: str, bucket: str
) -> None:
    everything = caller(cloud, role(client("iam"), "may-everything", "lambda.amazonaws.com"))("s3")
    assert everything.get_object(Bucket=bucket, Key="x")["Body"].read() == b"1"
    admin = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/admin"}, "Action": "kms:*"}
    client("kms").put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps({"Statement": [admin]}))
    message = refused(lambda: everything.get_object(Bucket=bucket, Key="x"))[1]
    assert message.endswith("because no resource-based policy allows the kms:Decrypt action")


def test_encrypted_queues_and_tables_require_permissions_on_their_keys(
    cloud: LocalCloud, client: Callable[..., Any], key: str
) -> None:
    queue = client("sqs").create_queue(QueueName="encrypted", Attributes={"KmsMasterKeyId": key})["QueueUrl"]
    client("dynamodb").create_table(
        TableName="encrypted",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key},
    )
    without = caller(cloud, role(client("iam"), "no-key", "lambda.amazonaws.com", DATA))
    send = refused(lambda: without("sqs").send_message(QueueUrl=queue, MessageBody="x"))[1]
    read = refused(lambda: without("dynamodb").get_item(TableName="encrypted", Key={"id": {"S": "x"}}))[1]
    assert (f"kms:GenerateDataKey on resource: {key}" in send, f"kms:Decrypt on resource: {key}" in read) == (
        True,
        True,
    )
    statements = (
        use(key, "sqs", "kms:Decrypt", "kms:GenerateDataKey"),
        use(key, "dynamodb", "kms:Decrypt"),
    )
    made = caller(cloud, role(client("iam"), "some-keys", "lambda.amazonaws.com", DATA, *statements))
    assert made("sqs").send_message(QueueUrl=queue, MessageBody="x")["MessageId"]
    assert "Item" not in made("dynamodb").get_item(TableName="encrypted", Key={"id": {"S": "x"}})


def test_a_training_job_needs_kms_encrypt_for_an_encrypted_model(
    cloud: LocalCloud, client: Callable[..., Any], sagemaker: SageMaker, key: str
) -> None:
    encrypt(client("s3"), sagemaker.bucket, key)
    code = "import os, pathlib; pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'], 'model', 'm').write_text('weights')"
    output = {"S3OutputPath": f"s3://{sagemaker.bucket}/out", "KmsKeyId": key}
    through_s3 = use(key, "s3", "kms:Decrypt", "kms:GenerateDataKey")
    others = {"Effect": "Allow", "Action": ["s3:*", "ecr:*", "logs:*", "cloudwatch:*"], "Resource": "*"}
    role(client("iam"), "training-role", "sagemaker.amazonaws.com", others, through_s3)
    failed = sagemaker.run(code, OutputDataConfig=output)
    assert failed["TrainingJobStatus"] == "Failed"
    assert f"is not authorized to perform: kms:Encrypt on resource: {key}" in failed["FailureReason"]
    alone = {"Effect": "Allow", "Action": "kms:Encrypt", "Resource": key}
    role(client("iam"), "training-role", "sagemaker.amazonaws.com", others, through_s3, alone)
    assert sagemaker.run(code, OutputDataConfig=output)["TrainingJobStatus"] == "Completed"
