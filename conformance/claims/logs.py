"""CloudWatch Logs: reading and querying logs."""

import time

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.batch import Batch
from conformance.sources import model, page


@claim(
    model("logs", "GetLogEvents", "NOT equal to the nextToken that you passed into the API call"),
    used_by="traingrid/backends/sagemaker/log.py",
)
def end_of_a_stream_repeats_the_token(aws: Aws) -> None:
    """At the end of a stream, GetLogEvents returns the same token that it received."""
    batch = Batch.of(aws)
    what = {"logGroupName": batch.group, "logStreamName": batch.child(0)["container"]["logStreamName"]}
    page_one = batch.logs.get_log_events(**what, startFromHead=True)
    token = page_one["nextForwardToken"]

    def again() -> bool:
        nonlocal token
        reply = batch.logs.get_log_events(**what, startFromHead=True, nextToken=token)
        before, token = token, reply["nextForwardToken"]
        return bool(before == token and not reply["events"])

    aws.wait(again, "the same token")
    assert page_one["events"]


@claim(model("logs", "DescribeLogStreams", "ResourceNotFoundException"), used_by="traingrid/backends/sagemaker/log.py")
def missing_log_group_is_not_found(aws: Aws) -> None:
    """DescribeLogStreams for a missing log group fails with ResourceNotFoundException."""
    with refused("ResourceNotFoundException"):
        aws.client("logs").describe_log_streams(logGroupName=aws.name("missing"))


@claim(
    model("logs", "GetLogEvents", "ResourceNotFoundException"),
    used_by="traingrid/submission/batch_children.py traingrid/cli/logs.py",
)
def missing_log_stream_is_not_found(aws: Aws) -> None:
    """GetLogEvents for a missing log stream fails with ResourceNotFoundException."""
    batch = Batch.of(aws)
    with refused("ResourceNotFoundException"):
        batch.logs.get_log_events(logGroupName=batch.group, logStreamName="missing")


@claim(
    page(
        "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_AnalyzeLogData-discoverable-fields.html",
        "you use dot notation to represent JSON fields",
    ),
    used_by="stacks/saved_queries.py",
    not_modelled="saved queries: they deploy, but queries return no results",
)
def query_finds_fields_of_json_lines(aws: Aws) -> None:
    """A CloudWatch Logs Insights query finds the fields of JSON log lines."""
    logs, name, now = aws.client("logs"), f"/{aws.name('query')}", int(time.time() * 1000)
    aws.undo.later(f"log group {name}", lambda: logs.delete_log_group(logGroupName=name))
    logs.create_log_group(logGroupName=name, tags=aws.tag_map)
    logs.create_log_stream(logGroupName=name, logStreamName="s")
    event = {"timestamp": now, "message": '{"event": "claim", "seconds": 3}'}
    logs.put_log_events(logGroupName=name, logStreamName="s", logEvents=[event])
    patience = aws.seconds(240)

    def found() -> list[object]:
        query = 'fields seconds | filter event = "claim"'
        asked = logs.start_query(
            logGroupName=name, startTime=now // 1000 - 600, endTime=now // 1000 + 600, queryString=query
        )
        reply = aws.wait(lambda: _complete(logs.get_query_results(queryId=asked["queryId"])), "the query")
        return list(reply["results"])

    rows = aws.wait(found, "the line", seconds=patience)
    assert '"3"' in str(rows).replace("'", '"')


def _complete(reply: dict[str, list[object]]) -> dict[str, list[object]]:
    return reply if str(reply["status"]) == "Complete" else {}


@documented(
    model("logs", "DescribeLogStreams", "This operation has a limit of 25 transactions per second"),
    used_by="traingrid/child/watch.py traingrid/backoff.py",
    why="a call rate that is throttled would also throttle the account's other users",
)
def log_streams_are_described_25_times_a_second(aws: Aws) -> None:
    """DescribeLogStreams is throttled above 25 calls per second per account and Region."""
