"""Queues of events that somebody has to look at: what could not be delivered, and what should not happen."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.grants import KEYS_OF_AWS, acknowledge, same_account, skip_in_checkov

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
    return _kept_for_a_person(scope, "DeadLetters", key, "This is a dead-letter queue")


def noticed(
    scope: Construct, identifier: str, *, pattern: Mapping[str, Any], what: str, key: kms.IKey | None
) -> sqs.Queue:
    """Return a new queue that keeps every event of a pattern for 14 days, with its reason, for someone to look at.

    A queue and not the topic of the alarms: EventBridge takes no conditions in a topic's policy, so that anybody's rule
    could publish to it (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sns-permissions);
    and an alarm on a queue is told once, however many events come.

    Args:
        scope: What the queue belongs to.
        identifier: Its name there.
        pattern: Which events of the Region's default bus, in EventBridge's words.
        what: What has happened then, as the rule's description.
        key: What it encrypts with; keys of SQS's own if that is None.
    """
    queue = _kept_for_a_person(
        scope, identifier, key, "No program reads it that could fail on a message; a person does"
    )
    # The construct of a queue as a target would let any rule of the account send to an encrypted one.
    target = events.CfnRule.TargetProperty(
        id="Queue",
        arn=queue.queue_arn,
        retry_policy=events.CfnRule.RetryPolicyProperty(
            maximum_event_age_in_seconds=EVENT_AGE.to_seconds(), maximum_retry_attempts=EVENT_RETRIES
        ),
    )
    rule = events.CfnRule(scope, f"{identifier}Rule", description=what, event_pattern=pattern, targets=[target])
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn],
            conditions=same_account(rule.attr_arn),
        )
    )
    return queue


def _kept_for_a_person(scope: Construct, identifier: str, key: kms.IKey | None, why_no_other: str) -> sqs.Queue:
    """Return a new queue that keeps messages for 14 days; `why_no_other` is why it has no dead-letter queue itself."""
    queue = sqs.Queue(
        scope,
        identifier,
        encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        encryption_master_key=key,
        enforce_ssl=True,
        retention_period=Duration.days(14),
    )
    acknowledge(queue, "AwsSolutions-SQS3", why_no_other)
    if key is None:
        skip_in_checkov(queue, "CKV_AWS_27", f"{KEYS_OF_AWS}: SqsManagedSseEnabled, which checkov does not look at")
    return queue
