"""Alarms: the conditions of a grid that an operator must know about."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_batch as batch
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs

from stacks.alarm_actions import AlarmTopic
from stacks.dead_letters import retain_events
from traingrid.aws.embedded_metrics import NAMESPACE, STOPPED_JOBS, SWEPT, UNREACHABLE, WAITING_LINES
from traingrid.job.failures import PERMISSION, SERVICE_ERROR, THROTTLED

_PERIOD, _LATE = Duration.minutes(5), Duration.minutes(15)


class Alarms(AlarmTopic):
    """The alarms of a stack; each method adds one. An alarm's kind is the name of its section in docs/alarms.md."""

    def undelivered(self, subject: str, queue: sqs.IQueue) -> None:
        """Alarm when a dead-letter queue is not empty."""
        self.alarm(
            "undelivered",
            subject,
            f"Events for {subject} were not delivered or handled. A dead-letter queue retains them for 14 days.",
            queue.metric_approximate_number_of_messages_visible(period=_PERIOD, statistic="Maximum"),
        )

    def failing(self, subject: str, function: lambda_.IFunction) -> None:
        """Alarm when a function has errors or is throttled in each of three periods of 5 minutes."""
        errors = function.metric_errors(period=_PERIOD, statistic="Sum")
        throttles = function.metric_throttles(period=_PERIOD, statistic="Sum")
        self.alarm(
            "failing",
            subject,
            f"The {subject} function repeatedly fails or is throttled. Its log contains the reason.",
            cloudwatch.MathExpression(
                # FILL, because a sum is missing if one of its metrics is: throttled invocations report no errors.
                expression="FILL(errors, 0) + FILL(throttles, 0)",
                using_metrics={"errors": errors, "throttles": throttles},
                period=_PERIOD,
                label="errors and throttles",
            ),
            periods=3,
        )

    def no_sweep(self) -> None:
        """Alarm when no pass has completed for 15 minutes, so that unwanted training jobs are not stopped."""
        self.alarm(
            "no-sweep",
            "",
            "The reconciler has not completed a pass for 15 minutes, so unwanted training jobs are not stopped.",
            self._pass_metric(SWEPT),
            operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            threshold=1,
            periods=3,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def stopped_by_sweep(self) -> None:
        """Alarm when the reconciler had to stop training jobs: cancels that children did not execute, or orphans."""
        self.alarm(
            "stopped-by-sweep",
            "",
            "The reconciler stopped training jobs that were cancelled or orphaned. Its log names them.",
            self._pass_metric(STOPPED_JOBS),
        )

    def unreachable(self) -> None:
        """Alarm when the reconciler could not check a Region or a submission for 15 minutes."""
        self.alarm(
            "unreachable",
            "",
            "The reconciler could not check a Region or submission for 15 minutes. Its log names it and the reason.",
            self._pass_metric(UNREACHABLE),
            periods=3,
        )

    def late(self, subject: str, function: lambda_.IFunction) -> None:
        """Alarm when events wait for a function, because it is throttled, or because it fails and is retried."""
        self.alarm(
            "late",
            subject,
            f"Events have been waiting for the {subject} function for more than 15 minutes.",
            function.metric("AsyncEventAge", period=_PERIOD, statistic="Maximum"),
            threshold=_LATE.to_milliseconds(),
        )

    def long_wait(self) -> None:
        """Alarm when jobs have been waiting continuously for 24 hours, CloudWatch's maximum evaluation period."""
        self.alarm(
            "long-wait",
            "",
            "Lines have been waiting continuously for 24 hours, for a quota or because the grid is paused.",
            self._pass_metric(WAITING_LINES, period=Duration.hours(1), statistic="Minimum"),
            periods=24,
        )

    def queue_blocked(self, queue: batch.JobQueue) -> None:
        """Alarm when Batch reports that the job at the head of the queue cannot start, and so blocks all others.

        https://docs.aws.amazon.com/batch/latest/userguide/batch-job-queue-blocked-events.html
        """
        pattern = {
            "source": ["aws.batch"],
            "detail-type": ["Batch Job Queue Blocked"],
            "detail": {"jobQueue": [queue.job_queue_arn]},
        }
        self._alarm_on_event(
            "queue-blocked", "QueueBlocked", pattern, "Batch reports that a job blocks the queue of the children."
        )

    def key_in_danger(self, suffix: str) -> None:
        """Alarm when a call disables the stack's KMS key, if it has one, or schedules its deletion.

        The events come from CloudTrail, so an account without a trail has none:
        https://docs.aws.amazon.com/kms/latest/developerguide/ct-schedule-key-deletion.html

        Args:
            suffix: The end of the alarm's name, with the name of the key: "control" or "data".
        """
        if self.key is None:
            return
        pattern = {
            "source": ["aws.kms"],
            "detail-type": ["AWS API Call via CloudTrail"],
            "detail": {
                "eventName": ["ScheduleKeyDeletion", "DisableKey"],
                "resources": {"ARN": [self.key.key_arn]},
            },
        }
        description = (
            "This stack's key was disabled or scheduled for deletion: data encrypted with it becomes unreadable."
        )
        self._alarm_on_event("key-in-danger", "KeyInDanger", pattern, description, suffix=suffix)

    def throttled_ledger(self, table: dynamodb.ITable) -> None:
        """Alarm when DynamoDB throttles the children's reads or writes of the ledger.

        ThrottledRequests has no value for a whole table, only for each operation, so the alarms use two other metrics
        (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html). FILL, because
        DynamoDB reports nothing while it does not throttle, and an alarm on DynamoDB's metrics keeps its state when
        data is missing
        (https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html, TreatMissingData).
        """
        for subject, metric in (("reads", "ReadThrottleEvents"), ("writes", "WriteThrottleEvents")):
            throttled = cloudwatch.Metric(
                namespace="AWS/DynamoDB",
                metric_name=metric,
                dimensions_map={"TableName": table.table_name},
                period=_PERIOD,
                statistic="Sum",
            )
            self.alarm(
                "throttled-ledger",
                subject,
                f"DynamoDB throttles {subject} of the ledger: children wait, and record states late.",
                cloudwatch.MathExpression(
                    expression=f"FILL({subject}, 0)", using_metrics={subject: throttled}, period=_PERIOD, label=subject
                ),
                periods=3,
            )

    def outage(self, log: logs.ILogGroup) -> None:
        """Alarm when AWS has throttled children, or has not responded to them, for 15 minutes."""
        failures = (THROTTLED, SERVICE_ERROR)
        conditions = " || ".join(f'($.failure = "{failure.name}")' for failure in failures)
        pattern = f'{{ ($.event = "outage") || ($.event = "refused" && ({conditions})) }}'
        description = "AWS has throttled children, or has not responded to them, for 15 minutes. They are waiting."
        self._alarm_on_log_lines("outage", pattern, log, description, periods=3)

    def denied(self, log: logs.ILogGroup) -> None:
        """Alarm when a child, or the execution role of its training job, lacks a permission."""
        pattern = f'{{ ($.failure = "{PERMISSION.name}") || ($.failure = "AccessDenied*") }}'
        self._alarm_on_log_lines(
            "denied", pattern, log, "A child, or the execution role of a training job, lacks a permission."
        )

    def _alarm_on_log_lines(
        self, kind: str, pattern: str, log: logs.ILogGroup, description: str, *, periods: int = 1
    ) -> None:
        """Alarm when the children's log has matching lines in each of `periods` consecutive periods.

        `pattern` selects the lines
        (https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html).
        """
        # A filter's metric can only have dimensions that occur in the line, so the namespace names the grid.
        lines = log.add_metric_filter(
            f"{kind}-lines",
            filter_pattern=logs.FilterPattern.literal(pattern),
            metric_namespace=f"{NAMESPACE}/{self.grid.name}",
            metric_name=kind,
        )
        self.alarm(kind, "", description, lines.metric(period=_PERIOD, statistic="Sum"), periods=periods)

    def _alarm_on_event(
        self, kind: str, identifier: str, pattern: Mapping[str, Any], description: str, *, suffix: str = ""
    ) -> None:
        queue = retain_events(self, identifier, pattern=pattern, description=description, key=self.key)
        self.alarm(
            kind,
            suffix,
            f"{description} A queue retains the event, with its reason, for 14 days.",
            queue.metric_approximate_number_of_messages_visible(period=_PERIOD, statistic="Maximum"),
        )

    def _pass_metric(self, metric: str, *, period: Duration = _PERIOD, statistic: str = "Sum") -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=metric,
            dimensions_map={"grid": self.grid.name},
            period=period,
            statistic=statistic,
        )
