"""Notifications: without the key there is no topic; with it, one topic to which only the reconciler may publish."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.stacks.templates import Template, a_grid, flat, only, resources, statements, synthesise

TOPIC, SUBSCRIPTION, FUNCTION = "AWS::SNS::Topic", "AWS::SNS::Subscription", "AWS::Lambda::Function"
EMAILS = ["team@example.com", "lab@example.com"]


@pytest.fixture(scope="module")
def notified(layer: Path) -> dict[str, Template]:
    """The templates of a grid with two Regions and notifications."""
    grid = a_grid(2, notifications={"emails": EMAILS})
    return synthesise(grid, layer)


@pytest.fixture(scope="module")
def with_keys(layer: Path) -> Template:
    grid = a_grid(1, notifications={}, encryption="kms")
    return synthesise(grid, layer)["traingrid-control"]


def topic(template: Template) -> tuple[str, Any]:
    ((name, found),) = [
        (name, found) for name, found in resources(template, TOPIC).items() if name.startswith("Notifications")
    ]
    return name, found["Properties"]


def publishers(template: Template) -> list[Any]:
    return [found for found in statements(template) if "sns:Publish" in str(found["Action"])]


def test_a_grid_without_notifications_has_no_topic_and_no_permission(control: Template) -> None:
    assert [name for name in resources(control, TOPIC) if not name.startswith("Alarms")] == []
    assert publishers(control) == []
    assert "NotificationTopic" not in control["Outputs"]
    assert "TRAINGRID_TOPIC" not in str(control["Resources"])


def test_only_the_home_region_has_a_topic_with_the_subscribers(notified: dict[str, Template]) -> None:
    name, properties = topic(notified["traingrid-control"])
    found = [entry["Properties"] for entry in resources(notified["traingrid-control"], SUBSCRIPTION).values()]
    assert [(entry["Protocol"], entry["Endpoint"], entry["TopicArn"]) for entry in found] == [
        ("email", email, {"Ref": name}) for email in EMAILS
    ]
    assert "alias/aws/sns" in flat(properties["KmsMasterKeyId"])
    regions = [template for stack, template in notified.items() if stack != "traingrid-control"]
    assert not [found for template in regions for found in resources(template, TOPIC) if "Notifications" in found]


def test_only_the_reconciler_knows_the_topic_and_may_publish(notified: dict[str, Template]) -> None:
    control = notified["traingrid-control"]
    name, _ = topic(control)
    (statement,) = publishers(control)
    assert (statement["Action"], statement["Resource"]) == (["sns:Publish"], [f"<{name}>"])
    knowing = [
        function
        for function, found in resources(control, FUNCTION).items()
        if "TRAINGRID_TOPIC" in found["Properties"].get("Environment", {}).get("Variables", {})
    ]
    assert [function[:15] for function in knowing] == ["ReconcilerSweep"]
    assert control["Outputs"]["NotificationTopic"]["Value"] == {"Ref": name}


def test_the_topic_refuses_calls_without_tls(notified: dict[str, Template]) -> None:
    name, _ = topic(notified["traingrid-control"])
    policies = [
        found["Properties"] for found in resources(notified["traingrid-control"], "AWS::SNS::TopicPolicy").values()
    ]
    (policy,) = [found for found in policies if found["Topics"] == [{"Ref": name}]]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_with_keys_the_topic_has_that_of_the_control_plane(with_keys: Template) -> None:
    (key,) = resources(with_keys, "AWS::KMS::Key")
    assert topic(with_keys)[1]["KmsMasterKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    uses = [found for found in statements(with_keys) if "sns." in str(found.get("Condition", ""))]
    assert [sorted(found["Action"]) for found in uses] == [["kms:Decrypt", "kms:GenerateDataKey"]]
    assert only(with_keys, "AWS::KMS::Key")["EnableKeyRotation"]
