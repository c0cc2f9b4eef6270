"""Queues of events that could not be delivered."""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.grants import acknowledge


def dead_letters(scope: Construct, key: kms.IKey | None) -> sqs.Queue:
    """Return a new queue that keeps lost events for 14 days, SQS's longest, for someone to look at.

    It encrypts with `key`, or with keys of SQS's own if that is None.
    """
    queue = sqs.Queue(
        scope,
        "DeadLetters",
        encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        encryption_master_key=key,
        enforce_ssl=True,
        retention_period=Duration.days(14),
    )
    acknowledge(queue, "AwsSolutions-SQS3", "This is a dead-letter queue")
    return queue
