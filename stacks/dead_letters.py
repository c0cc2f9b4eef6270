"""Dead letters: queues of events that an operator must inspect, undelivered or unexpected."""

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
"""Age at which Lambda and every rule discard an undelivered event: the longest that Lambda supports
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html)."""

EVENT_RETRIES = 185
"""EventBridge's maximum number of retries, so that the age of the event decides
(https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html)."""


def dead_letters(scope: Construct, key: kms.IKey | None) -> sqs.Queue:
    """Return a new queue that retains undelivered events for 14 days, SQS's maximum.

    It encrypts with `key`, or with SQS's own keys if that is None.
    """
    return _queue_for_a_person(scope, "DeadLetters", key, "This is a dead-letter queue")


def retain_events(
    scope: Construct, identifier: str, *, pattern: Mapping[str, Any], description: str, key: kms.IKey | None
) -> sqs.Queue:
    """Return a new queue that retains every event that matches a pattern for 14 days, for an operator to inspect.

    The rule does not send to the alarms' topic, for two reasons. EventBridge does not support conditions in the policy
    of a topic, so any rule could publish to it
    (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sns-permissions). And an
    alarm on a queue notifies once, however many events arrive.

    Args:
        identifier: Construct id of the queue in `scope`.
        pattern: EventBridge's pattern of the events on the Region's default bus.
        description: The description of the rule: the meaning of the events.
        key: The key that the queue encrypts with; None for SQS's own keys.
    """
    queue = _queue_for_a_person(
        scope, identifier, key, "An operator reads it; no program could fail to process a message"
    )
    # The CDK's SqsQueue target would let any rule of the account send to an encrypted queue.
    target = events.CfnRule.TargetProperty(
        id="Queue",
        arn=queue.queue_arn,
        retry_policy=events.CfnRule.RetryPolicyProperty(
            maximum_event_age_in_seconds=EVENT_AGE.to_seconds(), maximum_retry_attempts=EVENT_RETRIES
        ),
    )
    rule = events.CfnRule(scope, f"{identifier}Rule", description=description, event_pattern=pattern, targets=[target])
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn],
            conditions=same_account(rule.attr_arn),
        )
    )
    return queue


def _queue_for_a_person(scope: Construct, identifier: str, key: kms.IKey | None, why_no_other: str) -> sqs.Queue:
    """Return a new queue that retains messages for 14 days; `why_no_other` explains its lack of a dead-letter queue."""
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
        skip_in_checkov(queue, "CKV_AWS_27", f"{KEYS_OF_AWS}: SqsManagedSseEnabled, which checkov does not check")
    return queue
