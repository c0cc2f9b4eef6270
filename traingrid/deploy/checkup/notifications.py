"""Notifications: checks that the topic of notifications exists and has confirmed subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import DEPLOY_THIS_FILE, DIFFERS, REVERT_DRIFT, Finding, Verdict, run_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.model import GridSettings

_SUBJECT = "notifications"


def notifications(grid: GridSettings) -> Iterator[Finding]:
    """Check the topic of a deployed grid; nothing if grid.yaml has no `notifications`."""
    if grid.notifications is not None:
        needed = "sns:GetTopicAttributes and cloudformation:DescribeStacks"
        yield run_check(grid.home, _SUBJECT, lambda: _topic(grid), needed)


def _topic(grid: GridSettings) -> Finding:
    """Check that the topic of notifications exists and has confirmed subscriptions only."""
    stacks = client("cloudformation", grid.home).describe_stacks(StackName=names.control_stack(grid.name))["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stacks[0].get("Outputs", [])}
    if "NotificationTopic" not in outputs:
        return _wrong_finding(grid.home, f"{DIFFERS}: it has no topic", DEPLOY_THIS_FILE)
    topic = outputs["NotificationTopic"]
    try:
        attributes = client("sns", grid.home).get_topic_attributes(TopicArn=topic)["Attributes"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NotFound":
            raise
        return _wrong_finding(grid.home, f"the topic {topic} does not exist", REVERT_DRIFT)
    if pending := int(attributes.get("SubscriptionsPending", 0)):
        reason = f"{pending} of the topic's subscriptions {'are' if pending > 1 else 'is'} not confirmed"
        return _wrong_finding(
            grid.home, reason, "open the link in AWS's email with the subject about a subscription confirmation"
        )
    if not int(attributes.get("SubscriptionsConfirmed", 0)):
        return _wrong_finding(grid.home, f"the topic {topic} has no subscription", "add one (docs/notifications.md)")
    return Finding(region=grid.home, subject=_SUBJECT, verdict=Verdict.GOOD)


def _wrong_finding(region: str, reason: str, fix: str) -> Finding:
    return Finding(region=region, subject=_SUBJECT, verdict=Verdict.WRONG, reason=reason, fix=fix)
