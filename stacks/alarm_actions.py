"""Alarm actions: the SNS topic of a stack's alarms, and a method that adds an alarm that publishes to it."""

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.grants import acknowledge, this_account
from traingrid.grid.model import GridSettings

_NOTHING_IS_WELL = cloudwatch.TreatMissingData.NOT_BREACHING


class AlarmTopic(Construct):
    """An SNS topic in the stack's Region, its email subscriptions, and the alarms that publish to it.

    An alarm can only use metrics of the same Region, so every Region has a topic
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/AlarmThatSendsEmail.html). An alarm's description
    explains its cause, and names the section of docs/alarms.md with the response.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings, key: kms.IKey | None) -> None:
        super().__init__(scope, identifier)
        self.grid, self.key = grid, key
        self.topic = sns.Topic(self, "Topic", display_name=f"traingrid {grid.name}", master_key=key, enforce_ssl=True)
        if key is None:
            acknowledge(
                self.topic,
                "NIST.800.53.R5-SNSEncryptedKMS",
                "CloudWatch cannot publish to a topic that uses SNS's own key; messages only contain names of alarms",
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
        self._action = actions.SnsAction(self.topic)
        for email in grid.alarms.emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))

    def alarm(
        self,
        kind: str,
        suffix: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        operator: cloudwatch.ComparisonOperator = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        threshold: float = 0,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = _NOTHING_IS_WELL,
    ) -> None:
        """Add an alarm named `kind`-`suffix`; `kind` is also the name of its section in docs/alarms.md."""
        name = f"{kind}-{suffix}".removesuffix("-")
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self.grid.name}-{name}",
            alarm_description=f"{description} Response: docs/alarms.md, {kind}.",
            metric=metric,
            comparison_operator=operator,
            threshold=threshold,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(self._action)
