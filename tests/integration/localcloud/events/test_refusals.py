"""Requests that EventBridge refuses, and the nearest that it accepts."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.events.request_checks import MAX_PATTERN
from tests.integration.localcloud.probe import ACCOUNT

QUEUE = f"arn:aws:sqs:us-east-1:{ACCOUNT}:a-queue"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/forwards"


@pytest.fixture
def events(client: Callable[..., Any]) -> Iterator[Any]:
    api = client("events")
    api.put_rule(Name="checked", EventPattern='{"source": ["x"]}')
    yield api
    targets = api.list_targets_by_rule(Rule="checked")["Targets"]
    if targets:
        api.remove_targets(Rule="checked", Ids=[target["Id"] for target in targets])
    api.delete_rule(Name="checked")


def pattern_of(characters: int) -> str:
    return json.dumps({"source": ["x" * (characters - len('{"source": [""]}'))]})


@pytest.mark.parametrize("rate", ["rate(1 minutes)", "rate(3 minute)", "rate(0 minutes)", "rate(1 minute"])
def test_a_rate_with_the_wrong_unit_is_refused(events: Any, rate: str) -> None:
    with pytest.raises(ClientError, match="Parameter ScheduleExpression is not valid"):
        events.put_rule(Name="checked", ScheduleExpression=rate)


@pytest.mark.parametrize("rate", ["rate(1 minute)", "rate(10 minutes)", "rate(2 days)", "cron(0 12 * * ? *)"])
def test_a_schedule_is_accepted(events: Any, rate: str) -> None:
    events.put_rule(Name="checked", ScheduleExpression=rate)


def test_a_pattern_has_a_limit(events: Any) -> None:
    events.put_rule(Name="checked", EventPattern=pattern_of(MAX_PATTERN))
    with pytest.raises(ClientError, match="InvalidEventPatternException"):
        events.put_rule(Name="checked", EventPattern=pattern_of(MAX_PATTERN + 1))


def test_a_rule_has_at_most_five_targets(events: Any) -> None:
    events.put_targets(Rule="checked", Targets=[{"Id": str(number), "Arn": QUEUE} for number in range(5)])
    events.put_targets(Rule="checked", Targets=[{"Id": "4", "Arn": QUEUE}])
    with pytest.raises(ClientError, match="LimitExceededException"):
        events.put_targets(Rule="checked", Targets=[{"Id": "5", "Arn": QUEUE}])


def test_a_bus_in_another_region_needs_a_role(events: Any) -> None:
    bus = f"arn:aws:events:eu-west-1:{ACCOUNT}:event-bus/default"
    with pytest.raises(ClientError, match=f"RoleArn is required for target {bus}"):
        events.put_targets(Rule="checked", Targets=[{"Id": "1", "Arn": bus}])
    events.put_targets(Rule="checked", Targets=[{"Id": "1", "Arn": bus, "RoleArn": ROLE}])


def test_only_aws_puts_events_of_its_services(events: Any) -> None:
    entry = {"DetailType": "t", "Detail": "{}"}
    sources = ("mine", "aws.sagemaker", "awsome")
    answer = events.put_events(Entries=[{**entry, "Source": source} for source in sources])
    assert [found.get("ErrorCode") for found in answer["Entries"]] == [None, "NotAuthorizedForSourceException", None]
    assert answer["FailedEntryCount"] == 1
