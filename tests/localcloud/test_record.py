import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from localcloud.server import LocalCloud


def last(cloud: LocalCloud) -> dict[str, Any]:
    return cloud.record.entries()[-1]


def test_an_entry_says_who_did_what_where_and_with_which_parameters(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    answer = client("sqs", "eu-west-1").create_queue(QueueName="q")
    entry = last(cloud)
    assert (entry["service"], entry["action"], entry["region"]) == ("sqs", "CreateQueue", "eu-west-1")
    assert entry["principal"] == "arn:aws:iam::123456789012:root"
    assert entry["parameters"] == {"QueueName": "q"}
    assert entry["status"] == 200
    assert entry["response"] == {"QueueUrl": answer["QueueUrl"]}


def test_numbers_and_times_only_grow_and_the_file_holds_the_same(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    for name in ("a", "b", "c"):
        client("sqs").create_queue(QueueName=name)
    entries = cloud.record.entries()
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert sorted(entry["time"] for entry in entries) == [entry["time"] for entry in entries]
    lines = (cloud.data_dir / "record.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == entries
    assert cloud.record.entries(after=entries[-2]["seq"]) == entries[-1:]


def test_reading_and_rejected_calls_are_not_recorded(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    before = len(cloud.record.entries())
    client("s3").list_buckets()
    client("sqs").list_queues()
    client("sts").get_caller_identity()
    client("dynamodb").list_tables()
    with pytest.raises(ClientError):
        client("s3").put_object(Bucket="nowhere", Key="k", Body=b"x")
    with pytest.raises(ClientError):
        client("iam").delete_role(RoleName="nobody")
    assert len(cloud.record.entries()) == before


def test_large_bodies_stand_as_size_and_hash(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket="the-bucket")
    s3.put_object(Bucket="the-bucket", Key="a b/ü+.csv", Body=b"x" * 100_000)
    entry = last(cloud)
    assert entry["action"] == "PutObject"
    assert (entry["parameters"]["Bucket"], entry["parameters"]["Key"]) == ("the-bucket", "a b/ü+.csv")
    assert json.dumps(entry).count("xx") == 0


@pytest.mark.parametrize(
    ("service", "action", "arguments"),
    [
        ("iam", "CreateUser", {"UserName": "query"}),
        ("dynamodb", "CreateTable", {
            "TableName": "json", "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        }),
        ("cloudwatch", "PutMetricData", {"Namespace": "cbor", "MetricData": [{"MetricName": "m", "Value": 1.0}]}),
        ("lambda", "PublishLayerVersion", {"LayerName": "rest", "Content": {"ZipFile": b"PK"}}),
        ("s3", "PutBucketVersioning", {"Bucket": "the-bucket", "VersioningConfiguration": {"Status": "Enabled"}}),
    ],
)  # fmt: skip
def test_every_wire_protocol_is_understood(
    cloud: LocalCloud, client: Callable[..., Any], service: str, action: str, arguments: dict[str, Any]
) -> None:
    if service == "s3":
        client("s3").create_bucket(Bucket="the-bucket")
    getattr(client(service), xform_name(action))(**arguments)
    entry = last(cloud)
    assert entry["action"] == action
    assert next(iter(arguments.values())) in entry["parameters"].values()


def test_secrets_do_not_reach_the_record(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    client("iam").create_user(UserName="secretive")
    key = client("iam").create_access_key(UserName="secretive")["AccessKey"]
    assert key["SecretAccessKey"] not in (cloud.data_dir / "record.jsonl").read_text()
