"""Alarms: what a person has to hear of, and whom it is told."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.grants import acknowledge, this_account
from traingrid.embedded_metrics import NAMESPACE, STOPPED_JOBS, SWEPT, UNREACHABLE
from traingrid.grid import Grid

_PERIOD = Duration.minutes(5)
_NOTHING_IS_WELL = cloudwatch.TreatMissingData.NOT_BREACHING


class Alarms(Construct):
    """A topic in the stack's Region, and the alarms that are told to it.

    An alarm sees metrics of its own Region only, so every Region has its own topic
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/AlarmThatSendsEmail.html). The description of an
    alarm says what it means, and which section of docs/operations.md what to do.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: Grid, key: kms.IKey | None) -> None:
        super().__init__(scope, identifier)
        self._grid = grid
        self.topic = sns.Topic(self, "Topic", display_name=f"traingrid {grid.name}", master_key=key, enforce_ssl=True)
        if key is None:
            acknowledge(
                self.topic,
                "NIST.800.53.R5-SNSEncryptedKMS",
                "CloudWatch cannot publish to a topic with the key of SNS itself; messages name alarms, nothing else",
                checkov="CKV_AWS_26",
            )
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublish",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=this_account(),
            )
        )
        for email in grid.alarms.emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))

    def undelivered(self, what: str, queue: sqs.IQueue) -> None:
        """Alarm when something lies in a dead-letter queue."""
        self._alarm(
            "undelivered",
            what,
            f"Events for {what} could not be delivered or handled; they lie in a dead-letter queue for 14 days.",
            queue.metric_approximate_number_of_messages_visible(period=_PERIOD, statistic="Maximum"),
        )

    def failing(self, what: str, function: lambda_.IFunction) -> None:
        """Alarm when a function raises errors or is throttled for a quarter of an hour."""
        errors, throttles = (
            function.metric_errors(period=_PERIOD, statistic="Sum"),
            function.metric_throttles(period=_PERIOD, statistic="Sum"),
        )
        self._alarm(
            "failing",
            what,
            f"The {what} fails or is throttled again and again; its log says why.",
            cloudwatch.MathExpression(
                expression="errors + throttles",
                using_metrics={"errors": errors, "throttles": throttles},
                period=_PERIOD,
                label="errors and throttles",
            ),
            periods=3,
        )

    def no_sweep(self) -> None:
        """Alarm when no sweep has come to its end for a quarter of an hour: nobody stops what nobody wants."""
        self._alarm(
            "no-sweep",
            "",
            "The reconciler has not swept for 15 minutes: training jobs that nobody wants are not stopped.",
            self._swept(SWEPT),
            operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            threshold=1,
            periods=3,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def stopped_by_sweep(self) -> None:
        """Alarm when the reconciler had to stop training jobs: cancels that others did not carry out, or orphans."""
        self._alarm(
            "stopped-by-sweep",
            "",
            "The reconciler stopped training jobs that nobody wants any more; see which in its log.",
            self._swept(STOPPED_JOBS),
        )

    def unreachable(self) -> None:
        """Alarm when a Region or a submission could not be looked at for a quarter of an hour."""
        self._alarm(
            "unreachable",
            "",
            "The reconciler cannot look at some Region or submission; its log says which and why.",
            self._swept(UNREACHABLE),
            periods=3,
        )

    def throttled_ledger(self, table: dynamodb.ITable) -> None:
        """Alarm when the ledger refuses what children write."""
        self._alarm(
            "throttled-ledger",
            "",
            "DynamoDB throttles the ledger: children wait, and are late to record.",
            cloudwatch.Metric(
                namespace="AWS/DynamoDB",
                metric_name="ThrottledRequests",
                dimensions_map={"TableName": table.table_name},
                period=_PERIOD,
                statistic="Sum",
            ),
            periods=3,
        )

    def _swept(self, metric: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=metric,
            dimensions_map={"grid": self._grid.name},
            period=_PERIOD,
            statistic="Sum",
        )

    def _alarm(
        self,
        kind: str,
        of: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        operator: cloudwatch.ComparisonOperator = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        threshold: float = 0,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = _NOTHING_IS_WELL,
    ) -> None:
        name = f"{kind}-{of}".removesuffix("-")
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._grid.name}-{name}",
            alarm_description=f"{description} What to do: docs/operations.md, {kind}.",
            metric=metric,
            comparison_operator=operator,
            threshold=threshold,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
