import errno
import io
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.refused_operations import REFUSED
from localcloud.server.local_cloud import LocalCloud
from localcloud.wire.record import Record, RecordError


def last(cloud: LocalCloud) -> dict[str, Any]:
    return cloud.record.entries()[-1]


def test_an_entry_contains_principal_action_region_and_parameters(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    answer = client("sqs", "eu-west-1").create_queue(QueueName="q")
    entry = last(cloud)
    assert (entry["service"], entry["action"], entry["region"]) == ("sqs", "CreateQueue", "eu-west-1")
    assert entry["principal"] == "arn:aws:iam::123456789012:root"
    assert entry["parameters"] == {"QueueName": "q"}
    assert entry["status"] == 200
    assert entry["response"] == {"QueueUrl": answer["QueueUrl"]}


def test_numbers_and_times_increase_and_the_file_has_the_same_entries(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    for name in ("a", "b", "c"):
        client("sqs").create_queue(QueueName=name)
    entries = cloud.record.entries()
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert sorted(entry["time"] for entry in entries) == [entry["time"] for entry in entries]
    lines = (cloud.data_dir / "record.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == entries
    assert cloud.record.entries(after=entries[-2]["seq"]) == entries[-1:]


def test_read_only_and_rejected_calls_are_not_recorded(cloud: LocalCloud, client: Callable[..., Any]) -> None:
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


def test_large_bodies_are_recorded_as_size_and_hash(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket="the-bucket")
    s3.put_object(Bucket="the-bucket", Key="a b/ü+.csv", Body=b"x" * 100_000)
    entry = last(cloud)
    assert entry["action"] == "PutObject"
    assert (entry["parameters"]["Bucket"], entry["parameters"]["Key"]) == ("the-bucket", "a b/ü+.csv")
    assert "x" * 1_000 not in json.dumps(entry)  # request ids are random and may contain a few x


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
def test_calls_of_every_wire_protocol_are_recorded(
    cloud: LocalCloud, client: Callable[..., Any], service: str, action: str, arguments: dict[str, Any]
) -> None:
    if service == "s3":
        client("s3").create_bucket(Bucket="the-bucket")
    getattr(client(service), xform_name(action))(**arguments)
    entry = last(cloud)
    assert entry["action"] == action
    assert next(iter(arguments.values())) in entry["parameters"].values()


@pytest.fixture
def bucket(client: Callable[..., Any]) -> str:
    client("s3").create_bucket(Bucket="the-bucket")
    return "the-bucket"


def test_each_part_of_an_upload_is_recorded_once(cloud: LocalCloud, client: Callable[..., Any], bucket: str) -> None:
    before = len(cloud.record.entries())
    client("s3").upload_fileobj(io.BytesIO(b"x" * 9_000_000), bucket, "multipart")
    actions = sorted(entry["action"] for entry in cloud.record.entries(after=before))
    assert actions == ["CompleteMultipartUpload", "CreateMultipartUpload", "UploadPart", "UploadPart"]


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_presigned_upload_has_its_signers_principal(
    cloud: LocalCloud, client: Callable[..., Any], bucket: str, version: str
) -> None:
    session = boto3.Session(DUMMY_KEY, cloud.secret, region_name="us-east-1")
    s3 = session.client("s3", endpoint_url=cloud.endpoint_url, config=Config(signature_version=version))
    # Version 2 also signs the content type, which urllib adds.
    signed = {"ContentType": "application/x-www-form-urlencoded"} if version == "s3" else {}
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": version, **signed})
    assert status_of("PUT", url, b"x") == 200
    entry = last(cloud)
    assert (entry["action"], entry["parameters"]["Key"]) == ("PutObject", version)
    assert entry["principal"] == "arn:aws:iam::123456789012:root"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_presigned_call_is_recorded_like_any_other(
    cloud: LocalCloud, client: Callable[..., Any], method: str
) -> None:
    asked = {"UserName": f"presigned-{method}"}
    url = client("iam").generate_presigned_url("create_user", Params=asked, HttpMethod=method)
    before = len(cloud.record.entries())
    assert status_of(method, url, None) == 200
    (entry,) = cloud.record.entries(after=before)
    assert (entry["action"], entry["parameters"]) == ("CreateUser", asked)


@pytest.mark.parametrize("path", ["/the-bucket/unsigned", "/moto-api/reset"])
def test_unsigned_requests_are_refused(cloud: LocalCloud, client: Callable[..., Any], bucket: str, path: str) -> None:
    before = len(cloud.record.entries())
    assert status_of("PUT" if "bucket" in path else "POST", cloud.endpoint_url + path, b"x") == 403
    assert "Contents" not in client("s3").list_objects_v2(Bucket=bucket, Prefix="unsigned")
    assert len(cloud.record.entries()) == before


def test_an_unknown_access_key_is_refused(cloud: LocalCloud) -> None:
    stranger = boto3.client(
        "sqs", "us-east-1", endpoint_url=cloud.endpoint_url, aws_access_key_id="test", aws_secret_access_key="test"
    )
    before = len(cloud.record.entries())
    with pytest.raises(ClientError, match="was not issued by localcloud") as refused:
        stranger.create_queue(QueueName="strange")
    assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"
    assert len(cloud.record.entries()) == before


@pytest.mark.parametrize(
    ("service", "operation", "arguments"),
    [
        ("cloudtrail", "lookup_events", {}),
        ("iam", "get_context_keys_for_custom_policy", {"PolicyInputList": ["{}"]}),
        ("cloudformation", "detect_stack_drift", {"StackName": "s"}),
        ("batch", "get_job_queue_snapshot", {"jobQueue": "q"}),
        ("lambda", "list_capacity_providers", {}),
        ("sagemaker-runtime", "invoke_endpoint", {"EndpointName": "e", "Body": b"x"}),
        ("sagemaker", "start_pipeline_execution", {"PipelineName": "p", "ClientRequestToken": "a" * 32}),
    ],
)
def test_an_unsupported_operation_is_refused_without_retries(
    client: Callable[..., Any], service: str, operation: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ClientError, match="not been implemented in localcloud") as refused:
        getattr(client(service), operation)(**arguments)
    assert refused.value.response["Error"]["Code"] == "InvalidAction"
    assert refused.value.response["ResponseMetadata"]["RetryAttempts"] == 0


def test_an_error_inside_localcloud_is_named(client: Callable[..., Any]) -> None:
    with pytest.raises(ClientError, match=r"GetQueryResults failed in localcloud: KeyError. server\.log") as refused:
        client("logs").get_query_results(queryId="no-such-query")
    assert refused.value.response["Error"]["Code"] == "InternalFailure"


def test_operations_that_moto_does_not_run_are_refused_by_their_handlers() -> None:
    missing = [
        operation
        for handler, operations in REFUSED.items()
        for operation in operations
        if not hasattr(handler, xform_name(operation))
    ]
    assert not missing


def test_a_missing_bucket_is_not_found(client: Callable[..., Any]) -> None:
    with pytest.raises(ClientError) as refused:
        client("s3").head_bucket(Bucket="no-such-bucket")
    assert refused.value.response["Error"]["Code"] == "404"


def status_of(method: str, url: str, data: bytes | None) -> int:
    request = urllib.request.Request(url, data=data, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_secrets_do_not_reach_the_record(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    client("iam").create_user(UserName="secretive")
    key = client("iam").create_access_key(UserName="secretive")["AccessKey"]
    assert key["SecretAccessKey"] not in (cloud.data_dir / "record.jsonl").read_text()


def test_values_that_are_secret_are_redacted_in_parameters_and_texts(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    address = f"{cloud.endpoint_url}/localcloud/cloudformation/answers/{'0f' * 16}"
    client("secretsmanager").create_secret(Name="s", SecretString="hunter2", Description="of a database")
    client("ssm").put_parameter(Name="p", Type="SecureString", Value="hunter2")
    client("ssm").put_parameter(Name="q", Type="String", Value="plain")
    queue = client("sqs").create_queue(QueueName="failed")["QueueUrl"]
    client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps({"ResponseURL": address}))
    text = (cloud.data_dir / "record.jsonl").read_text()
    assert "hunter2" not in text + json.dumps(cloud.record.entries())
    assert "0f0f" not in text
    assert all(word in text for word in ("of a database", "plain", "/localcloud/cloudformation/answers/***"))


def tried_once(cloud: LocalCloud) -> Any:
    session = boto3.Session(DUMMY_KEY, cloud.secret, region_name="us-east-1")
    return session.client("sqs", endpoint_url=cloud.endpoint_url, config=Config(retries={"mode": "standard"}))


def test_a_full_disk_refuses_the_call_before_it_takes_effect(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqs, usage = tried_once(cloud), shutil.disk_usage(cloud.data_dir)
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3 * 2**20))
        with pytest.raises(ClientError, match="cannot record CreateQueue and did not run it: only 3 MiB") as error:
            sqs.create_queue(QueueName="full")
    assert error.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 507
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="full")
    assert sqs.create_queue(QueueName="full")["QueueUrl"]


def test_an_unwritten_entry_is_written_before_the_next_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.jsonl"
    record = Record(path)
    record.begin()
    file = record._file
    with io.FileIO("/dev/full", "w") as full:  # each write fails with ENOSPC, as on a full disk
        record._file = full
        record.append({"action": "First"})
        with pytest.raises(RecordError, match="cannot be written"):
            record.require_room()
    assert "No space left on device" in capsys.readouterr().err
    record._file = file
    record.require_room()
    record.append({"action": "Second"})
    record.end()
    assert [json.loads(line)["action"] for line in path.read_text().splitlines()] == ["First", "Second"]


def test_a_full_disk_during_a_call_is_reported_without_retries(
    cloud: LocalCloud, client: Callable[..., Any], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/spooled")

    monkeypatch.setattr("moto.s3.models.S3Backend.put_object", full)
    with pytest.raises(ClientError, match="No space left on device in /tmp/spooled") as error:
        client("s3").put_object(Bucket=bucket, Key="k", Body=b"x")
    assert error.value.response["ResponseMetadata"]["RetryAttempts"] == 0
