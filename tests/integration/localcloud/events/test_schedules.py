from collections.abc import Callable
from typing import Any

import pytest

from localcloud.events.schedules import Schedules, period_seconds
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.probe import Probe


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [("rate(5 minutes)", 300), ("rate(1 hour)", 3600), ("rate(2 days)", 172800), ("cron(0 12 * * ? *)", None)],
)
def test_a_rate_expression_is_converted_to_a_period(expression: str, seconds: float | None) -> None:
    assert period_seconds(expression) == seconds


def test_a_scheduled_rule_fires_once_per_period_unless_disabled(client: Callable[..., Any], cloud: LocalCloud) -> None:
    time, fired = [0.0], []
    schedules = Schedules(lambda rule: fired.append(rule.name), lambda: time[0])
    events = client("events")
    events.put_rule(Name="often", ScheduleExpression="rate(1 minute)")
    events.put_rule(Name="never", EventPattern='{"source": ["x"]}')
    for time[0] in (0, 30, 59, 60, 61, 119, 121):
        schedules.tick()
    assert fired == ["often", "often"]
    events.disable_rule(Name="often")
    for time[0] in (200, 300):
        schedules.tick()
    assert fired == ["often", "often"]
    events.delete_rule(Name="often")
    events.delete_rule(Name="never")


def test_targets_of_scheduled_rules_receive_the_documented_event(
    client: Callable[..., Any], cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localcloud.events.schedules.period_seconds", lambda text: 0.5 if text else None)
    probe = Probe(client, "clock").allow()
    client("events").put_rule(Name="clock", ScheduleExpression="rate(1 minute)")
    client("events").put_targets(Rule="clock", Targets=[{"Id": "1", "Arn": probe.arn}])
    event = probe.events(1)[0]
    assert (event["source"], event["detail-type"], event["detail"]) == ("aws.events", "Scheduled Event", {})
    assert event["resources"] == ["arn:aws:events:us-east-1:123456789012:rule/clock"]
    client("events").disable_rule(Name="clock")
