"""DynamoDB streams: records of changes, and functions that Lambda invokes with them."""

import json
from typing import Any

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.events import Inbox
from conformance.resources.functions import function
from conformance.resources.identity import allow, role
from conformance.resources.storage import table_with_stream
from conformance.sources import page

_ERRORS = "https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html"
_FILTERS = "https://docs.aws.amazon.com/lambda/latest/dg/with-ddb-filtering.html"
_POLICY = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/iam-policy-example-lamda-process-dynamodb-streams.html"
_ROLES = "https://docs.aws.amazon.com/aurora-dsql/latest/userguide/using-database-and-iam-roles.html"
_FOLLOWER = "stacks/catalog_follower.py lambda/follow_ledger.py"
_CODE = """
def handler(event, context):
    changes = [record["dynamodb"] for record in event["Records"]]
    keys = [change["Keys"]["sk"]["S"] for change in changes]
    images = sum("NewImage" in change or "OldImage" in change for change in changes)
    print("got", ",".join(keys), "with", images, "images")
    if "job#bad" in keys:
        raise ValueError("a bad record")
"""
_FILTER = {"dynamodb": {"Keys": {"sk": {"S": [{"prefix": "job#"}]}}}}


def _followed(aws: Aws) -> dict[str, Any]:
    """Return the log of a function that fails on one of four records, and the dead letter; claims share them."""

    def make() -> dict[str, Any]:
        name, stream = table_with_stream(aws)
        box = Inbox(aws)
        streams = f"arn:aws:dynamodb:{aws.home}:{aws.account}:table/{name}/stream/*"
        allowed = (
            allow("dynamodb:DescribeStream dynamodb:GetRecords dynamodb:GetShardIterator", streams),
            allow("dynamodb:ListStreams logs:CreateLogStream logs:PutLogEvents"),
            allow("sqs:SendMessage", box.arn),
        )
        follower = role(aws, "follower", {"Service": "lambda.amazonaws.com"}, *allowed)
        runs, api = function(aws, _CODE, Role=follower), aws.client("lambda")
        for item in ("job#1", "cancel#1", "job#bad", "job#2"):
            key = {"pk": {"S": "a"}, "sk": {"S": item}}
            aws.client("dynamodb").put_item(TableName=name, Item=key | {"v": {"S": "x"}})
        made = api.create_event_source_mapping(
            FunctionName=runs,
            EventSourceArn=stream,
            StartingPosition="TRIM_HORIZON",
            MaximumBatchingWindowInSeconds=2,
            BisectBatchOnFunctionError=True,
            MaximumRetryAttempts=0,
            FilterCriteria={"Filters": [{"Pattern": json.dumps(_FILTER)}]},
            DestinationConfig={"OnFailure": {"Destination": box.arn}},
        )
        aws.undo.later("event source mapping", lambda: api.delete_event_source_mapping(UUID=made["UUID"]))
        patience = aws.seconds(300)
        letter = json.loads(aws.wait(box.messages, "the dead letter", seconds=patience)[0]["Body"])
        group, logs = f"/aws/lambda/{runs}", aws.client("logs")

        def lines() -> list[str]:
            events = logs.filter_log_events(logGroupName=group, filterPattern="got")["events"]
            found = [str(event["message"]) for event in events]
            return found if any("got job#2 " in line for line in found) else []

        return {"letter": letter, "log": aws.wait(lines, "the last record", seconds=patience), "stream": stream}

    return aws.once("followed", make)


@claim(page(_ERRORS, "splits a failed batch into two smaller batches"), used_by=_FOLLOWER)
def failing_record_of_a_stream_is_discarded_alone(aws: Aws) -> None:
    """Lambda splits a batch that fails, handles the other records, and sends only a failing record's position on."""
    letter = _followed(aws)["letter"]
    assert letter["requestContext"]["condition"] == "RetryAttemptsExhausted"
    batch = letter["DDBStreamBatchInfo"]
    assert (batch["batchSize"], batch["streamArn"]) == (1, _followed(aws)["stream"])
    assert batch["startSequenceNumber"] == batch["endSequenceNumber"]
    assert "Records" not in letter


@claim(page(_FILTERS, "process only those records where the primary key"), used_by=_FOLLOWER)
def filter_selects_records_of_a_stream_by_their_keys(aws: Aws) -> None:
    """A mapping with a filter on keys invokes its function only with matching records, without images for KEYS_ONLY."""
    log = "".join(_followed(aws)["log"])
    assert "job#1" in log
    assert "cancel#1" not in log
    assert "with 0 images" in log


@claim(
    page(_POLICY, "needs permissions to read data from a DynamoDB stream"),
    page(
        "https://github.com/aws-samples/lambda-refarch-webapp/issues/7",
        "Please ensure the role can perform the GetRecords",
    ),
    used_by="stacks/catalog_follower.py",
)
def mapping_needs_a_role_that_reads_the_stream(aws: Aws) -> None:
    """Lambda refuses the mapping of a stream that the function's role may not read."""
    _, stream = table_with_stream(aws)
    name = function(aws, _CODE)
    with refused("InvalidParameterValueException"):
        aws.client("lambda").create_event_source_mapping(
            FunctionName=name, EventSourceArn=stream, StartingPosition="TRIM_HORIZON"
        )


@documented(
    page(_ROLES, "Associate the database role with the IAM role ARN"),
    used_by="traingrid/catalog/roles.py stacks/catalog_follower.py",
    why="a cluster of Aurora DSQL has no stand-in in localcloud, and the suite creates none in an account",
)
def database_role_belongs_to_an_iam_role(aws: Aws) -> None:
    """With dsql:DbConnect, an IAM role connects to Aurora DSQL as the database roles that AWS IAM GRANT gave it."""
