"""Queues of events that could not be delivered."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.grants import acknowledge


def dead_letters(scope: Construct) -> sqs.Queue:
    """Return a new queue that keeps lost events for 14 days, SQS's longest, for someone to look at."""
    queue = sqs.Queue(
        scope,
        "DeadLetters",
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(14),
    )
    acknowledge(queue, "AwsSolutions-SQS3", "This is a dead-letter queue")
    return queue
