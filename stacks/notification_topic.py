"""Notification topic: the SNS topic of messages about submissions, and the permission to publish to it."""

from collections.abc import Iterable

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.grants import grant
from stacks.keys import use_key


class NotificationTopic(Construct):
    """An SNS topic in the home Region, and its email subscriptions.

    It is not the topic of alarms, because its readers are the users of the grid, and because every message contains
    names and reasons of users. It is encrypted with the stack's key, or with the key of the account that AWS manages
    for SNS: the policy of that key admits all principals of the account that may use SNS, and no service publishes to
    this topic (https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html).
    """

    def __init__(
        self, scope: Construct, identifier: str, *, grid: str, emails: Iterable[str], key: kms.IKey | None
    ) -> None:
        super().__init__(scope, identifier)
        key_of_account = kms.Alias.from_alias_name(self, "KeyOfAccount", "alias/aws/sns")
        self.topic = sns.Topic(
            self,
            "Topic",
            display_name=f"traingrid {grid} submissions",
            master_key=key or key_of_account,
            enforce_ssl=True,
        )
        for email in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))


def let_publish(role: iam.Role, notifications: NotificationTopic, key: kms.IKey | None, *, region: str) -> None:
    """Allow a role to publish to the topic, and to use the key that encrypts it through SNS.

    A publisher requires both permissions of the key
    (https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html#sns-what-permissions-for-sse).
    """
    grant(role, ["sns:Publish"], [notifications.topic.topic_arn])
    use_key(role, key, region=region, services=["sns"])
