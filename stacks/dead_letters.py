"""Queues of events that could not be delivered."""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.grants import KEYS_OF_AWS, acknowledge, skip_in_checkov

EVENT_AGE = Duration.hours(6)
"""How old an event may be before it is lost: Lambda's own longest age, and every rule gives up at the same one
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html)."""

EVENT_RETRIES = 185
"""The most that EventBridge tries again, so that the age decides
(https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html)."""


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
    if key is None:
        skip_in_checkov(queue, "CKV_AWS_27", f"{KEYS_OF_AWS}: SqsManagedSseEnabled, which checkov does not look at")
    return queue
