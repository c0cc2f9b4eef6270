"""Event buses, rules, and inboxes: queues that receive the events that match a rule."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from conformance.resources.identity import document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conformance.aws import Aws


def queue(aws: Aws, region: str = "", principal: str = "events.amazonaws.com", key: str = "") -> tuple[str, str]:
    """Create a queue to which a service may send messages, optionally with a KMS key; return its URL and its ARN."""
    region = region or aws.home
    sqs, name = aws.client("sqs", region), aws.name("inbox")
    arn = f"arn:aws:sqs:{region}:{aws.account}:{name}"
    send = {"Effect": "Allow", "Principal": {"Service": principal}, "Action": "sqs:SendMessage", "Resource": arn}
    attributes = {"Policy": document(send), **({"KmsMasterKeyId": key} if key else {})}
    url = sqs.create_queue(QueueName=name, Attributes=attributes, tags=aws.tag_map)["QueueUrl"]
    aws.undo.later(f"queue {name}", lambda: sqs.delete_queue(QueueUrl=url))
    return url, arn


class Inbox:
    """A queue in a Region, with the messages that it has received."""

    def __init__(self, aws: Aws, region: str = "", principal: str = "events.amazonaws.com", key: str = "") -> None:
        self.aws, self.region = aws, region or aws.home
        self.url, self.arn = queue(aws, self.region, principal, key)
        self._sqs, self._found = aws.client("sqs", self.region), list[dict[str, Any]]()

    def admit(self, conditions: Mapping[str, Any]) -> None:
        """Let EventBridge send to the queue only under conditions."""
        send = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
        policy = document({**send, "Resource": self.arn, "Condition": conditions})
        self._sqs.set_queue_attributes(QueueUrl=self.url, Attributes={"Policy": policy})

    def messages(self) -> list[dict[str, Any]]:
        """Return all messages received so far."""
        more = self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
        for message in more.get("Messages", []):
            self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
            self._found.append(message)
        return self._found

    def event(self, wanted: Callable[[dict[str, Any]], object] = bool) -> dict[str, Any]:
        """Wait for an event that satisfies a predicate, and return it."""

        def found() -> dict[str, Any]:
            events = (json.loads(message["Body"]) for message in self.messages())
            return next((event for event in events if wanted(event)), {})

        return self.aws.wait(found, "the event")


def bus(aws: Aws) -> tuple[str, str]:
    """Create a custom event bus in the home Region; return its name and its ARN."""
    events, name = aws.client("events"), aws.name("bus")
    aws.undo.later(f"event bus {name}", lambda: events.delete_event_bus(Name=name))
    return name, str(events.create_event_bus(Name=name, Tags=aws.tags())["EventBusArn"])


def let_account_send(aws: Aws, name: str, arn: str) -> None:
    """Give a bus the statement of the product: the whole account may put events, without a condition."""
    whole = {"AWS": f"arn:aws:iam::{aws.account}:root"}
    statement = {"Sid": "account", "Effect": "Allow", "Principal": whole, "Action": "events:PutEvents", "Resource": arn}
    aws.client("events").put_permission(EventBusName=name, Policy=document(statement))
    time.sleep(aws.place.settle_seconds)


def rule(aws: Aws, pattern: Mapping[str, Any], target: Mapping[str, Any], region: str = "", bus: str = "") -> str:
    """Create a rule with one target on a bus, by default the default bus; return its ARN."""
    events, name = aws.client("events", region), aws.name("rule")
    where = {"EventBusName": bus} if bus else {}

    def delete() -> None:
        events.remove_targets(Rule=name, Ids=["1"], **where)
        events.delete_rule(Name=name, **where)

    aws.undo.later(f"rule {name}", delete)
    made = events.put_rule(Name=name, EventPattern=json.dumps(pattern), Tags=aws.tags(), **where)
    events.put_targets(Rule=name, Targets=[{"Id": "1", **target}], **where)
    return str(made["RuleArn"])


def inbox(aws: Aws, pattern: Mapping[str, Any], region: str = "") -> Inbox:
    """Return an inbox for the events on a Region's default bus that match a pattern."""
    box = Inbox(aws, region)
    rule(aws, pattern, {"Arn": box.arn}, region)
    return box
