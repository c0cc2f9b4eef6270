"""Receives the events that EventBridge delivers."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.integration.localcloud.compute import LIMIT_SECONDS

ACCOUNT = "123456789012"


class Probe:
    """A queue that receives the events of a rule."""

    def __init__(self, client: Callable[..., Any], name: str, region: str = "us-east-1") -> None:
        self.sqs = client("sqs", region)
        self.url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        self.arn = f"arn:aws:sqs:{region}:{ACCOUNT}:{name}"

    def allow(self, *others: Mapping[str, Any]) -> "Probe":
        """Let EventBridge send to the queue, unless another statement denies it."""
        statement = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
        policy = {"Statement": [{**each, "Resource": self.arn} for each in (statement, *others)]}
        self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes={"Policy": json.dumps(policy)})
        return self

    def messages(self, count: int, seconds: float = LIMIT_SECONDS) -> list[Any]:
        """Wait for a number of messages, or until the time is over."""
        found: list[Any] = []
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline:
            answer = self.sqs.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], WaitTimeSeconds=0
            )
            found += answer.get("Messages", [])
            time.sleep(0.02)
        return found

    def events(self, count: int, seconds: float = LIMIT_SECONDS) -> list[Any]:
        return [json.loads(message["Body"]) for message in self.messages(count, seconds)]


def rule(
    client: Callable[..., Any], name: str, pattern: dict[str, Any], target: dict[str, Any], region: str = "us-east-1"
) -> None:
    events = client("events", region)
    events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=name, Targets=[{"Id": "1", **target}])
