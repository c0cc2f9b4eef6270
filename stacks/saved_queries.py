"""Saved queries: an operator's queries for CloudWatch Logs Insights."""

from collections.abc import Mapping, Sequence

from aws_cdk import aws_logs as logs
from constructs import Construct

from traingrid.log import TRAINING

QUERIES: Mapping[str, Sequence[str]] = {
    "failed children by reason": (
        "fields coalesce(failure, errorType) as why",
        'filter (event = "ended" and state = "Failed") or event = "error" or level = "ERROR"',
        "stats count(*) as lines, count_distinct(submission) as submissions, latest(message) as for_example by why",
        "sort lines desc",
    ),
    "timeline of a submission": (
        "fields @timestamp, index, attempt, region, event, message",
        "# The submission's id, as `traingrid status` shows it:",
        f'filter @message like /00000000/ and event != "{TRAINING}"',
        "sort @timestamp asc",
        "limit 10000",
    ),
    "throttling and outages": (
        "fields failure, region",
        'filter event = "outage" or event = "refused"',
        "stats count(*) as times, count_distinct(batch_child) as children by bin(5m), failure, region",
        "sort times desc",
    ),
    "slowest launches": (
        "fields launch_seconds, submission, index, attempt, training_job, region",
        "filter ispresent(launch_seconds)",
        "sort launch_seconds desc",
        "limit 50",
    ),
}
"""The commands of each query, by its name
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html). Fields are those of
traingrid/log.py; Lambda writes `errorType`."""


def saved_queries(scope: Construct, *, grid: str, log_groups: Sequence[logs.ILogGroup]) -> None:
    """Save the queries for the logs of a grid's control plane, in a folder with the grid's name."""
    names = [group.log_group_name for group in log_groups]
    for name, commands in QUERIES.items():
        logs.CfnQueryDefinition(
            scope,
            "Query" + name.title().replace(" ", ""),
            name=f"traingrid/{grid}/{name}",
            query_string="\n".join(_query_lines(commands)),
            log_group_names=names,
        )


def _query_lines(commands: Sequence[str]) -> list[str]:
    """Return the lines of a query: commands after the first begin with a pipe, comments are unchanged."""
    first_command, *others = commands
    return [first_command, *(line if line.startswith("#") else f"| {line}" for line in others)]
