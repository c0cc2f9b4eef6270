import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import role
from tests.integration.localcloud.probe import ACCOUNT, Probe, rule


@pytest.fixture
def bucket(client: Callable[..., Any]) -> Iterator[str]:
    s3 = client("s3", "eu-west-1")
    place = {"LocationConstraint": "eu-west-1"}
    s3.create_bucket(Bucket="the-bucket", CreateBucketConfiguration=place)
    s3.put_bucket_versioning(Bucket="the-bucket", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_notification_configuration(
        Bucket="the-bucket", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    yield "the-bucket"
    for version in s3.list_object_versions(Bucket="the-bucket").get("Versions", []):
        s3.delete_object(Bucket="the-bucket", Key=version["Key"], VersionId=version["VersionId"])
    s3.delete_bucket(Bucket="the-bucket")


def test_an_upload_sends_an_object_created_event_in_the_buckets_region(client: Callable[..., Any], bucket: str) -> None:
    probe, elsewhere = Probe(client, "uploads", "eu-west-1").allow(), Probe(client, "uploads").allow()
    pattern = {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": {"bucket": {"name": [bucket]}}}
    rule(client, "uploads", pattern, {"Arn": probe.arn}, "eu-west-1")
    rule(client, "uploads", pattern, {"Arn": elsewhere.arn})
    put = client("s3").put_object(Bucket=bucket, Key="a folder/x+y.csv", Body=b"12345")
    (event,) = probe.events(1)
    assert event["detail-type"] == "Object Created"
    assert event["region"] == "eu-west-1"
    assert event["resources"] == [f"arn:aws:s3:::{bucket}"]
    thing = event["detail"]["object"]
    assert thing["key"] == "a folder/x+y.csv"
    assert thing["size"] == 5
    assert thing["etag"] == put["ETag"].strip('"')
    assert thing["version-id"] == put["VersionId"]
    assert event["detail"]["reason"] == "PutObject"
    assert elsewhere.events(1, 0.3) == []


def test_events_distinguish_copies_and_multipart_uploads(client: Callable[..., Any], bucket: str) -> None:
    probe, s3 = Probe(client, "reasons", "eu-west-1").allow(), client("s3")
    rule(client, "reasons", {"detail": {"object": {"key": [{"prefix": "r/"}]}}}, {"Arn": probe.arn}, "eu-west-1")
    s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    s3.copy_object(Bucket=bucket, Key="r/copy", CopySource=f"{bucket}/source")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="r/parts")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="r/parts", UploadId=upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="r/parts", UploadId=upload, MultipartUpload=parts)
    events = probe.events(2)
    assert {event["detail"]["object"]["key"]: event["detail"]["reason"] for event in events} == {
        "r/copy": "CopyObject",
        "r/parts": "CompleteMultipartUpload",
    }
    assert len({event["detail"]["object"]["sequencer"] for event in events}) == 2


def _bus(client: Callable[..., Any], name: str, *, accept: bool = True) -> str:
    """Create a bus whose policy lets this account put events, and return its ARN."""
    events = client("events")
    arn = str(events.create_event_bus(Name=name)["EventBusArn"])
    if accept:
        account = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
        statement = {"Sid": "1", "Effect": "Allow", "Principal": account, "Action": "events:PutEvents", "Resource": arn}
        events.put_permission(EventBusName=name, Policy=json.dumps({"Statement": [statement]}))
    return arn


def test_a_bus_without_a_policy_is_refused_as_the_target_of_a_rule_of_its_account(client: Callable[..., Any]) -> None:
    bus = _bus(client, "closed-bus", accept=False)
    sends = {"Effect": "Allow", "Action": "events:PutEvents", "Resource": bus}
    forwarder = role(client("iam"), "unwelcome", "events.amazonaws.com", sends)
    for region in ("eu-west-1", "us-east-1"):
        with pytest.raises(ClientError, match="AccessDeniedException"):
            rule(client, "unwelcome", {"source": ["a"]}, {"Arn": bus, "RoleArn": forwarder}, region)
        assert client("events", region).list_targets_by_rule(Rule="unwelcome")["Targets"] == []


def test_an_event_is_a_dead_letter_if_the_policy_of_the_bus_was_removed(
    client: Callable[..., Any], cloud: LocalCloud
) -> None:
    bus = _bus(client, "reclosed")
    sends = {"Effect": "Allow", "Action": "events:PutEvents", "Resource": bus}
    forwarder = role(client("iam"), "late", "events.amazonaws.com", sends)
    lost = Probe(client, "late", "eu-west-1").allow()
    target = {"Arn": bus, "RoleArn": forwarder, "DeadLetterConfig": {"Arn": lost.arn}}
    rule(client, "late", {"source": ["aws.late"]}, target, "eu-west-1")
    client("events").remove_permission(EventBusName="reclosed", StatementId="1")
    cloud.put_event("eu-west-1", {"source": "aws.late", "detail-type": "X", "detail": {}})
    (message,) = lost.messages(1)
    assert message["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_PERMISSIONS"


def test_a_bus_in_another_region_receives_events_with_their_origin(
    client: Callable[..., Any], cloud: LocalCloud
) -> None:
    bus = _bus(client, "home")
    sends = {"Effect": "Allow", "Action": "events:PutEvents", "Resource": bus}
    forwarder = role(client("iam"), "forwarder", "events.amazonaws.com", sends)
    probe = Probe(client, "home").allow()
    client("events").put_rule(Name="all", EventBusName="home", EventPattern='{"source": ["aws.batch"]}')
    client("events").put_targets(Rule="all", EventBusName="home", Targets=[{"Id": "1", "Arn": probe.arn}])
    rule(client, "forward", {"source": ["aws.batch"]}, {"Arn": bus, "RoleArn": forwarder}, "eu-west-1")
    cloud.put_event("eu-west-1", {"source": "aws.batch", "detail-type": "X", "detail": {"a": 1}})
    (event,) = probe.events(1)
    assert (event["region"], event["account"], event["detail"]) == ("eu-west-1", ACCOUNT, {"a": 1})


def test_a_bus_receives_no_events_from_a_role_without_permission(client: Callable[..., Any], cloud: LocalCloud) -> None:
    bus = _bus(client, "guarded")
    nothing = {"Effect": "Deny", "Action": "*", "Resource": "*"}
    powerless = role(client("iam"), "powerless", "events.amazonaws.com", nothing)
    lost = Probe(client, "unsent", "eu-west-1").allow()
    target = {"Arn": bus, "RoleArn": powerless, "DeadLetterConfig": {"Arn": lost.arn}}
    rule(client, "refused", {"source": ["aws.glue"]}, target, "eu-west-1")
    cloud.put_event("eu-west-1", {"source": "aws.glue", "detail-type": "X", "detail": {}})
    (message,) = lost.messages(1)
    assert message["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_PERMISSIONS"
    assert json.loads(message["Body"])["source"] == "aws.glue"


def test_a_bus_receives_no_events_with_a_role_that_trusts_another_rule(
    client: Callable[..., Any], cloud: LocalCloud
) -> None:
    bus = _bus(client, "distrusted")
    sends = {"Effect": "Allow", "Action": "events:PutEvents", "Resource": bus}
    forwarder = role(client("iam"), "for-another", "events.amazonaws.com", sends)
    named = f"arn:aws:events:eu-west-1:{ACCOUNT}:rule/a-stack-of-a-long-name-*"
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"ArnLike": {"aws:SourceArn": named}, "StringEquals": {"aws:SourceAccount": ACCOUNT}},
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    client("iam").update_assume_role_policy(RoleName="for-another", PolicyDocument=trust)
    lost = Probe(client, "untrusted", "eu-west-1").allow()
    target = {"Arn": bus, "RoleArn": forwarder, "DeadLetterConfig": {"Arn": lost.arn}}
    rule(client, "a-stack-of-a-lo-Rule-R8GGDQYO90UP", {"source": ["aws.athena"]}, target, "eu-west-1")
    cloud.put_event("eu-west-1", {"source": "aws.athena", "detail-type": "X", "detail": {}})
    (message,) = lost.messages(1)
    assert message["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "FAILED_TO_ASSUME_ROLE"


def test_put_events_reaches_only_the_named_custom_bus(client: Callable[..., Any]) -> None:
    client("events").create_event_bus(Name="custom")
    inside, outside = Probe(client, "inside").allow(), Probe(client, "outside").allow()
    client("events").put_rule(Name="in", EventBusName="custom", EventPattern='{"source": ["me"]}')
    client("events").put_targets(Rule="in", EventBusName="custom", Targets=[{"Id": "1", "Arn": inside.arn}])
    rule(client, "out", {"source": ["me"]}, {"Arn": outside.arn})
    entry = {"Source": "me", "DetailType": "T", "Detail": '{"x": 1}', "EventBusName": "custom"}
    client("events").put_events(Entries=[entry])
    (event,) = inside.events(1)
    assert event["detail"] == {"x": 1}
    assert isinstance(event["time"], str)
    assert outside.events(1, 0.3) == []


FROM_DEAD = {"ArnLike": {"aws:SourceArn": f"arn:aws:events:*:{ACCOUNT}:rule/dead"}}


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:missing", "NO_RESOURCE"),
        (f"arn:aws:sqs:us-east-1:{ACCOUNT}:missing", "NO_RESOURCE"),
        (f"arn:aws:sqs:us-east-1:{ACCOUNT}:closed", "NO_PERMISSIONS"),
        (f"arn:aws:sqs:us-east-1:{ACCOUNT}:denied", "NO_PERMISSIONS"),
        (f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/default", "FAILED_TO_ASSUME_ROLE"),
    ],
)
def test_undeliverable_events_go_to_the_rules_dead_letter_queue(
    client: Callable[..., Any], cloud: LocalCloud, target: str, code: str
) -> None:
    Probe(client, "closed")
    Probe(client, "denied").allow({"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Condition": FROM_DEAD})
    dead = Probe(client, "dead").allow()
    rule(client, "dead", {"source": ["dead"]}, {"Arn": target, "DeadLetterConfig": {"Arn": dead.arn}})
    cloud.put_event("us-east-1", {"source": "dead", "detail-type": "T", "detail": {}})
    (message,) = dead.messages(1)
    dead.sqs.delete_message(QueueUrl=dead.url, ReceiptHandle=message["ReceiptHandle"])
    attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert attributes["ERROR_CODE"] == code
    assert attributes["TARGET_ARN"] == target
    assert json.loads(message["Body"])["source"] == "dead"


TRANSFORMER = {
    "InputPathsMap": {"key": "$.detail.key", "first": "$.detail.list[0]", "none": "$.detail.none", "all": "$.detail"},
    "InputTemplate": '{"key": <key>, "text": "<key> of <none>.", "first": <first>, "all": <all>, "rule": '
    '"<aws.events.rule-name>", "unknown": "<unknown>"}',
}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"Input": '{"fixed": 1}'}, {"fixed": 1}),
        ({"InputPath": "$.detail.list[1]"}, 2),
        ({"InputPath": "$.detail.none.deeper"}, None),
        (
            {"InputTransformer": TRANSFORMER},
            {
                "key": 'a "b"', "text": 'a "b" of .', "first": 1, "all": {"key": 'a "b"', "list": [1, 2]},
                "rule": "inputs", "unknown": "<unknown>",
            },
        ),
        ({"InputTransformer": {"InputTemplate": '"rule <aws.events.rule-name>"'}}, "rule inputs"),
    ],
)  # fmt: skip
def test_a_target_receives_the_transformed_input(
    client: Callable[..., Any], target: dict[str, Any], expected: Any
) -> None:
    probe = Probe(client, "inputs").allow()
    rule(client, "inputs", {"source": ["inputs"]}, {"Arn": probe.arn, **target})
    detail = {"key": 'a "b"', "list": [1, 2]}
    client("events").put_events(Entries=[{"Source": "inputs", "DetailType": "t", "Detail": json.dumps(detail)}])
    (found,) = probe.events(1)
    probe.sqs.delete_queue(QueueUrl=probe.url)
    assert found == expected
