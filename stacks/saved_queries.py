"""What a person on call asks the logs, saved in CloudWatch Logs Insights under the grid's name."""

from collections.abc import Mapping, Sequence

from aws_cdk import aws_logs as logs
from constructs import Construct

from traingrid.log_lines import TRAINING

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
"""By name the commands of each query
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html). Fields are those of
traingrid/log_lines.py, and `errorType` that of Lambda."""


def saved_queries(scope: Construct, *, grid: str, log_groups: Sequence[logs.ILogGroup]) -> None:
    """Save the queries for the logs of a grid's control plane; a slash in their names makes a folder of the grid's."""
    names = [group.log_group_name for group in log_groups]
    for name, commands in QUERIES.items():
        logs.CfnQueryDefinition(
            scope,
            "Query" + name.title().replace(" ", ""),
            name=f"traingrid/{grid}/{name}",
            query_string="\n".join(_piped(commands)),
            log_group_names=names,
        )


def _piped(commands: Sequence[str]) -> list[str]:
    """Return the lines of a query: every command but the first after a pipe, and comments as they are."""
    first, *others = commands
    return [first, *(line if line.startswith("#") else f"| {line}" for line in others)]
