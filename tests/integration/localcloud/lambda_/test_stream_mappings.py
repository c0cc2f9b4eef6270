"""Event source mappings of DynamoDB streams: filters, batches, retries, splits, dead letters and permissions."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.dynamodb.models import dynamodb_backends

from tests.integration.localcloud.compute import role, wait_until
from tests.integration.localcloud.lambda_.test_functions import archive

ACCOUNT = "arn:aws:iam::123456789012"
CODE = """
import json, os, time, uuid, boto3
def handler(event, context):
    keys = [record["dynamodb"]["Keys"]["item"]["S"] for record in event["Records"]]
    bucket = os.environ["BUCKET"]
    boto3.client("s3").put_object(Bucket=bucket, Key=f"{time.time():.6f}", Body=json.dumps([keys, event["Records"][0]]))
    if any(key.startswith("bad") for key in keys):
        raise ValueError("a bad record")
"""
FILTER = {"dynamodb": {"Keys": {"item": {"S": [{"prefix": "job#"}, {"prefix": "bad"}]}}}}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A table with a stream, a function that records its batches in a bucket, and a dead-letter queue."""

    client: Callable[..., Any]
    name: str
    stream: str
    queue: str

    def follow(self, **settings: Any) -> str:
        """Create a mapping and return its id."""
        made = self.client("lambda").create_event_source_mapping(
            FunctionName=self.name, EventSourceArn=self.stream, **{"StartingPosition": "TRIM_HORIZON", **settings}
        )
        return str(made["UUID"])

    def write(self, *items: str) -> None:
        for item in items:
            key = {"submission": {"S": "0a1b2c3d"}, "item": {"S": item}}
            self.client("dynamodb").put_item(TableName=self.name, Item={**key, "state": {"S": "x"}})

    def batches(self) -> list[list[str]]:
        return [keys for keys, _ in self.invocations()]

    def invocations(self) -> list[Any]:
        s3 = self.client("s3")
        found = s3.list_objects_v2(Bucket=self.name).get("Contents", [])
        return [json.load(s3.get_object(Bucket=self.name, Key=each["Key"])["Body"]) for each in found]

    def letters(self) -> list[Any]:
        sqs = self.client("sqs")
        url = sqs.get_queue_url(QueueName=self.name)["QueueUrl"]
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0).get("Messages", [])
        return [json.loads(message["Body"]) for message in found]


@pytest.fixture
def place(client: Callable[..., Any]) -> Iterator[Place]:
    name = f"follow-{uuid.uuid4().hex[:8]}"
    client("s3").create_bucket(Bucket=name)
    queue = client("sqs").create_queue(QueueName=name)["QueueUrl"]
    arn = client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    table = client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "submission", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("submission", "item")],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    )["TableDescription"]
    made = Place(client=client, name=name, stream=table["LatestStreamArn"], queue=arn)
    role(client("iam"), name, "lambda.amazonaws.com")
    allow(made, "DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
    client("lambda").create_function(
        FunctionName=name,
        Role=f"{ACCOUNT}:role/{name}",
        Runtime="python3.11",
        Handler="probe.handler",
        Code={"ZipFile": archive({"probe.py": CODE})},
        Environment={"Variables": {"BUCKET": name}},
        Timeout=30,
    )
    yield made
    for mapping in client("lambda").list_event_source_mappings(FunctionName=name)["EventSourceMappings"]:
        client("lambda").delete_event_source_mapping(UUID=mapping["UUID"])


def allow(place: Place, *actions: str) -> None:
    statements = [
        {"Effect": "Allow", "Action": [f"dynamodb:{name}" for name in actions], "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{place.name}/*"},
        {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": place.queue},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    place.client("iam").put_role_policy(RoleName=place.name, PolicyName="may", PolicyDocument=document)


def test_records_that_pass_a_filter_are_gathered_into_one_batch(place: Place) -> None:
    place.write("job#00000", "cancel#all")
    place.follow(
        BatchSize=100,
        MaximumBatchingWindowInSeconds=2,
        FilterCriteria={"Filters": [{"Pattern": json.dumps(FILTER)}]},
    )
    place.write("job#00001", "submission", "job#00002")
    wait_until(lambda: bool(place.batches()))
    ((keys, record),) = place.invocations()
    assert keys == ["job#00000", "job#00001", "job#00002"]
    assert (record["eventSource"], record["eventSourceARN"]) == ("aws:dynamodb", place.stream)
    assert record["dynamodb"]["StreamViewType"] == "KEYS_ONLY"
    assert set(record["dynamodb"]) & {"NewImage", "OldImage"} == set()


def test_a_full_batch_does_not_wait_for_its_window_and_order_is_kept(place: Place) -> None:
    items = [f"job#{number:05d}" for number in range(5)]
    place.write(*items)
    place.follow(BatchSize=2, MaximumBatchingWindowInSeconds=1)
    wait_until(lambda: sum(map(len, place.batches())) == 5)
    assert place.batches() == [items[:2], items[2:4], items[4:]]


def test_a_failed_batch_is_split_until_only_the_bad_record_is_discarded(place: Place) -> None:
    place.write("job#00000", "job#00001", "bad", "job#00003")
    place.follow(
        BatchSize=100,
        MaximumBatchingWindowInSeconds=1,
        BisectBatchOnFunctionError=True,
        MaximumRetryAttempts=1,
        DestinationConfig={"OnFailure": {"Destination": place.queue}},
    )
    wait_until(lambda: bool(place.letters()))
    place.write("job#00004")  # the shard continues
    wait_until(lambda: ["job#00004"] in place.batches())
    assert place.batches() == [
        ["job#00000", "job#00001", "bad", "job#00003"],
        ["job#00000", "job#00001"],
        ["bad", "job#00003"],
        ["bad"],
        ["bad"],
        ["job#00003"],
        ["job#00004"],
    ]
    (letter,) = place.letters()
    assert letter["requestContext"]["condition"] == "RetryAttemptsExhausted"
    assert letter["requestContext"]["approximateInvokeCount"] == 2
    batch = letter["DDBStreamBatchInfo"]
    assert (batch["batchSize"], batch["streamArn"]) == (1, place.stream)
    assert batch["startSequenceNumber"] == batch["endSequenceNumber"]
    assert "Records" not in letter


def test_without_splits_a_whole_batch_is_retried_and_discarded(place: Place) -> None:
    place.write("job#00000", "bad")
    place.follow(MaximumRetryAttempts=1, DestinationConfig={"OnFailure": {"Destination": place.queue}})
    wait_until(lambda: bool(place.letters()))
    assert place.batches() == [["job#00000", "bad"]] * 2
    assert place.letters()[0]["DDBStreamBatchInfo"]["batchSize"] == 2


def test_a_corrected_function_handles_the_records_that_failed(place: Place) -> None:
    place.write("bad")
    place.follow()
    wait_until(lambda: len(place.batches()) > 1)
    place.client("lambda").update_function_code(
        FunctionName=place.name, ZipFile=archive({"probe.py": CODE.replace('"bad"', '"worse"')})
    )
    time.sleep(2)
    place.write("job#00001")
    wait_until(lambda: ["job#00001"] in place.batches())


def test_a_record_that_is_too_old_is_discarded_without_an_invocation(place: Place) -> None:
    place.write("job#00000")
    (stored,) = dynamodb_backends["123456789012"]["us-east-1"].tables[place.name].stream_shard.items
    stored.record["dynamodb"]["ApproximateCreationDateTime"] -= timedelta(seconds=61)
    place.follow(MaximumRecordAgeInSeconds=60, DestinationConfig={"OnFailure": {"Destination": place.queue}})
    (letter,) = wait_until(place.letters)
    assert letter["requestContext"]["approximateInvokeCount"] == 0
    place.write("job#00001")
    wait_until(place.batches)
    assert place.batches() == [["job#00001"]]


def test_the_latest_position_leaves_out_earlier_records_and_a_deleted_mapping_all(place: Place) -> None:
    place.write("job#00000")
    mapping = place.follow(StartingPosition="LATEST")
    place.write("job#00001")
    wait_until(lambda: bool(place.batches()))
    place.client("lambda").delete_event_source_mapping(UUID=mapping)
    place.write("job#00002")
    time.sleep(1)
    assert place.batches() == [["job#00001"]]


@pytest.mark.parametrize("missing", ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"])
def test_a_role_that_may_not_read_the_stream_is_refused(place: Place, missing: str) -> None:
    allow(place, *{"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"} - {missing})
    with pytest.raises(ClientError, match="Please ensure the role can perform the GetRecords"):
        place.follow()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"BatchSize": 10_000, "MaximumBatchingWindowInSeconds": 301}, "MaximumBatchingWindowInSeconds"),
        ({"MaximumRecordAgeInSeconds": 30}, "MaximumRecordAgeInSeconds"),
        ({"ParallelizationFactor": 2}, "ParallelizationFactor"),
        ({"FunctionResponseTypes": ["ReportBatchItemFailures"]}, "FunctionResponseTypes"),
        ({"FilterCriteria": {"Filters": [{"Pattern": "{not JSON"}]}}, "filter pattern"),
        ({"FilterCriteria": {"Filters": [{"Pattern": "{}"}] * 6}}, "Maximum number of filters"),
        (
            {"DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sqs:us-east-1:123456789012:other"}}},
            "SendMessage",
        ),
        ({"EventSourceArn": "arn:aws:sqs:us-east-1:123456789012:other"}, "DynamoDB"),
    ],
)
def test_a_mapping_that_aws_or_localcloud_does_not_support_is_refused(
    place: Place, settings: dict[str, Any], reason: str
) -> None:
    request = {
        "FunctionName": place.name,
        "EventSourceArn": place.stream,
        "StartingPosition": "TRIM_HORIZON",
        **settings,
    }
    with pytest.raises(ClientError, match=reason):
        place.client("lambda").create_event_source_mapping(**request)
    assert place.client("lambda").list_event_source_mappings(FunctionName=place.name)["EventSourceMappings"] == []
